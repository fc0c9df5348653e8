import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// A POSIX thread that runs a closure and can be joined.
///
/// Request handlers make blocking system calls, so they run on threads of their own rather than on Swift's pool.
package struct Thread: @unchecked Sendable {
  private let identifier: pthread_t

  /// Starts a thread, one of those in reserve if there are any. `stackSize` is in bytes; `name` is truncated to the 15
  /// bytes that the kernel keeps.
  package init(name: String, stackSize: Int = 1 << 19, _ body: @escaping @Sendable () -> Void) {
    if let reserved = ReservedThread.take() {
      self = reserved.thread
      reserved.start(name, body)
      return
    }
    do throws(Errno) {
      try self.init(starting: name, stackSize: stackSize, body)
    } catch {
      preconditionFailure("no thread can be started: \(error)")
    }
  }

  /// Starts a thread that the program can do without.
  ///
  /// - Throws: `EAGAIN` if the user or the system has too many threads (pthread_create(3)).
  package init(
    starting name: String, stackSize: Int = 1 << 19, _ body: @escaping @Sendable () -> Void
  ) throws(Errno) {
    var attributes = pthread_attr_t()
    unsafe pthread_attr_init(&attributes)
    unsafe pthread_attr_setstacksize(&attributes, stackSize)
    defer { unsafe pthread_attr_destroy(&attributes) }
    #if canImport(Glibc)
      var identifier = pthread_t()
    #else
      // A pointer.
      var identifier: pthread_t!
    #endif
    let start = unsafe Unmanaged.passRetained(Start(name: name, body: body))
    let result = unsafe pthread_create(
      &identifier, &attributes,
      { argument in
        let start = unsafe Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
        Thread.setName(start.name)
        start.body()
        return nil
      }, start.toOpaque())
    guard result == 0 else {
      unsafe start.release()
      throw Errno(rawValue: result)
    }
    self.identifier = identifier
  }

  /// Names the calling thread, up to 15 bytes; the first one, and ps(1) shows that of the process (prctl(2),
  /// `PR_SET_NAME`).
  package static func setName(_ name: String) {
    _ = unsafe linux_set_thread_name(name)
  }

  /// Closes all descriptors but one, or with -1 all, for the calling thread, and for no other (close_range(2),
  /// `CLOSE_RANGE_UNSHARE`). Where the kernel does not know that, they stay open.
  package static func keepOnly(_ descriptor: CInt) { linux_keep_only_descriptor(descriptor) }

  /// Waits until the thread has ended.
  package func join() {
    LockOrder.requireCallsAllowed("pthread_join")
    pthread_join(identifier, nil)
  }

  /// Shows for how long a thread has had a processor since it made this (pthread_getcpuclockid(3)); any may look.
  package struct ProcessorClock: Sendable {
    private let identifier: clockid_t?
    private var start = 0

    package init() {
      var clock = clockid_t()
      identifier = unsafe pthread_getcpuclockid(pthread_self(), &clock) == 0 ? clock : nil
      start = total
    }

    /// Whole milliseconds.
    package var milliseconds: Int { max(total - start, 0) }

    /// Nothing of a thread that has ended.
    private var total: Int {
      var time = timespec()
      guard let identifier, unsafe clock_gettime(identifier, &time) == 0 else { return 0 }
      return Int(time.tv_sec) * 1000 + Int(time.tv_nsec) / 1_000_000
    }
  }

  /// Waits for about a microsecond without yielding the processor.
  @inline(__always) package static func pause() {
    linux_pause()
  }

  /// Sleeps for the given time (usleep(3)).
  package static func sleep(microseconds: UInt32) {
    LockOrder.requireCallsAllowed("usleep")
    usleep(microseconds)
  }

  /// The kernel's number of the calling thread (gettid(2)).
  package static var number: Int32 { linux_thread_number() }

  /// Detaches the thread, so that it need not be joined.
  package func detach() {
    pthread_detach(identifier)
  }

  private final class Start {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
      self.name = name
      self.body = body
    }
  }
}
