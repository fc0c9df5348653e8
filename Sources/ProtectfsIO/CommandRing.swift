import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// A ring of io_uring(7) that carries FUSE's commands for one `/dev/fuse`, and nothing else.
///
/// The thread that enables it is the only one that uses it. Any thread may make it, but none that is confined.
@safe package final class CommandRing: @unchecked Sendable {
  private let ring: UnsafeMutablePointer<linux_ring>

  /// `FUSE_IO_URING_CMD_*` in linux/fuse.h, since Linux 6.14.
  package enum Command: CInt, Sendable {
    /// Gives the kernel a buffer, for the first request.
    case register = 1
    /// Answers the request in a buffer, which is then for another one.
    case commitAndFetch = 2
  }

  /// Makes a ring for as many buffers.
  ///
  /// - Throws: `EPERM` if rings are forbidden to this process or to all (`kernel.io_uring_disabled`), `EINVAL` or
  ///   `ENOSYS` if the kernel does not know what is needed, `ENOMEM`, `EMFILE`.
  package init(buffers: Int, device: CInt) throws(Errno) {
    unsafe ring = .allocate(capacity: 1)
    // If this fails, `deinit` follows.
    try check(unsafe linux_ring_open(ring, UInt32(buffers), device))
  }

  deinit {
    unsafe linux_ring_close(ring)
    unsafe ring.deallocate()
  }

  /// The ring is the calling thread's from now on.
  package func enable() throws(Errno) { try check(unsafe linux_ring_enable(ring)) }

  /// Readable for poll(2) if there is something to gather before it sleeps.
  package var descriptor: CInt { unsafe ring.pointee.descriptor }

  /// Has an event raised when there is something to gather. To be called before the ring is enabled.
  package func raise(_ event: EventDescriptor) throws(Errno) {
    try check(unsafe linux_ring_signal(ring, event.rawValue))
  }

  /// Adds a command, for the next call of ``enter(awaiting:gathers:)``. If that is not made in time, ``hasUnsubmitted``
  /// says so.
  ///
  /// - Throws: `EAGAIN` if the kernel lacks memory for what was added before.
  package func add(_ command: Command, _ buffer: RequestBuffer, commit: UInt64 = 0, tag: UInt64) throws(Errno) {
    let parts = command == .register ? unsafe buffer.parts() : nil
    try check(unsafe linux_ring_add(ring, command.rawValue, UInt32(buffer.queue), commit, parts, tag))
  }

  /// Whether something was added and is not submitted.
  package var hasUnsubmitted: Bool { unsafe ring.pointee.added > 0 }

  /// Submits what was added, and waits for as many completions. Unless it `gathers`, the kernel writes into no buffer
  /// but those of the commands that are submitted. A signal may end the wait. As long as the kernel lacks memory for a
  /// command, this is repeated.
  package func enter(awaiting count: Int, gathers: Bool = true) throws(Errno) {
    LockOrder.requireCallsAllowed("io_uring_enter")
    repeat {
      do throws(Errno) {
        try check(unsafe linux_ring_enter(ring, UInt32(count), gathers ? 1 : 0))
      } catch {
        guard error == .resourceTemporarilyUnavailable || error == .resourceBusy else { throw error }
        Thread.sleep(microseconds: 1000)
      }
    } while hasUnsubmitted
  }

  /// Takes a completion: the tag of a command, and its result.
  package func take() -> (tag: UInt64, result: CInt)? {
    var tag: UInt64 = 0
    var result: CInt = 0
    return unsafe linux_ring_take(ring, &tag, &result) == 1 ? (tag, result) : nil
  }

  /// Runs the calling thread on a processor alone, if it is there and permitted. Returns whether it is.
  @discardableResult
  package static func bindThread(to processor: Int) -> Bool { linux_bind_thread(UInt32(processor)) == 0 }

  /// Runs the calling thread on any processor that the first thread of the process may run on. Without an effect if the
  /// kernel refuses.
  package static func unbindThread() { _ = linux_unbind_thread() }

  /// Writes to a file on a processor, if it is there and permitted, else on any.
  package static func write(_ bytes: UnsafeRawBufferPointer, to file: CInt, on processor: Int) throws(Errno) {
    try check(unsafe linux_write_on_processor(UInt32(processor), file, bytes.baseAddress, bytes.count))
  }
}
