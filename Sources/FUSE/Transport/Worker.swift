import CFUSE
import Glibc
import ProtectfsIO

/// A thread that serves requests, with a buffer of its own. A request is read into the buffer, and the data of the
/// answer is sent from it, behind the page that holds the request. The buffer is allocated once and kept out of core
/// dumps.
@safe final class Worker {
  /// Room behind the data of a read or write, for the block that the last bytes are padded to.
  static let slack = 4096

  /// How long a worker pauses after each request from the device, in microseconds, while others come through rings.
  private static let pauseBesideRings: UInt32 = 1000

  /// The size of a request's header and arguments, without the data of a write or an extended attribute.
  private static let headerSize = 4096
  static let requestSize = headerSize + Session.maximumTransfer

  /// The request being served, and what follows it in memory.
  var request: UnsafeMutableRawBufferPointer
  /// The buffer for the data of an answer, if the request has no data itself: room for the largest transfer and twice
  /// the slack.
  private(set) var data: UnsafeMutableRawBufferPointer
  let session: OpaquePointer
  private let target: DispatchTarget
  /// The answer on its way to a ring; `nil` if requests come from the device.
  let ringAnswer: RingAnswer?
  private let device: RequestDevice
  private let watch: DeviceWatch
  /// The request that this worker serves, visible to other threads.
  private let served: ServedRequest
  /// Another thread has answered the current request.
  private var wasAnswered = false
  /// How many requests from the device had been served when the current one, from a ring, began.
  private var servedBefore: UInt64 = 0

  /// A worker that reads requests from the device; or one that is given requests, and whose answers are taken by
  /// `ringAnswer`.
  init(
    _ session: OpaquePointer, _ target: DispatchTarget, _ device: RequestDevice, _ watch: DeviceWatch,
    _ served: ServedRequest, ringAnswer: RingAnswer? = nil
  ) {
    unsafe self.session = session
    self.target = target
    self.device = device
    self.watch = watch
    self.served = served
    self.ringAnswer = ringAnswer
    guard ringAnswer == nil else {
      unsafe request = UnsafeMutableRawBufferPointer(start: nil, count: 0)
      unsafe data = unsafe request
      return
    }
    unsafe request = .allocate(byteCount: Self.requestSize + 2 * Self.slack, alignment: 4096)
    unsafe data = UnsafeMutableRawBufferPointer(rebasing: request[Self.headerSize...])
    unsafe Memory.keepOutOfCoreDumps(request)
  }

  deinit {
    if ringAnswer == nil { unsafe request.deallocate() }
  }

  /// Serves requests until the file system is unmounted.
  func run(as number: Int) {
    becomeCurrent()
    let buffer = unsafe UnsafeMutableRawBufferPointer(rebasing: request[..<Self.requestSize])
    var queued = 0
    while true {
      watch.becomeLeader()
      var count = unsafe device.read(into: buffer, for: served)
      queued = count > 0 ? queued + 1 : 0
      while count == 0 {
        watch.follow(number)
        if !usesRings { count = unsafe device.poll(into: buffer, for: served) }
        if count == 0, watch.isOnlyLeader { count = unsafe device.wait(into: buffer, for: served) }
      }
      guard count > 0, unsafe fuse_session_exited(session) == 0 else { return watch.end() }
      let header = begin(count)
      watch.stepDown(mayTakeLong: mayTakeLong, hasQueue: queued == Self.patience)
      if queued == Self.patience { queued = 0 }
      serve(header, count)
      watch.finish()
      // What comes from the device then is answered to nobody: nodes that the kernel forgets, one with each unlink(2).
      // They are taken together, and no thread is woken for each.
      if usesRings { Thread.sleep(microseconds: Self.pauseBesideRings) }
    }
  }

  /// Whether requests come through rings, but for those that only the device has.
  private var usesRings: Bool { target.counts.usesRings.load(ordering: .relaxed) }

  /// Does work that comes after the answer. Another worker is at the device meanwhile. An answer to a ring is not
  /// delivered before this one is free, so there a thread of its own does it.
  func continueAfterAnswer(_ work: @escaping ReadAhead) {
    guard ringAnswer == nil else { return target.readAheadQueue.add(work) }
    // The answer was sent.
    served.end()
    watch.promoteIfLeaderless()
    work()
  }

  /// The number of requests in a row found waiting, after which the worker promotes another one.
  private static let patience = 16

  /// Makes this the calling thread's worker.
  func becomeCurrent() {
    Memory.giveThreadItsOwnUmask()
    unsafe pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque())
  }

  /// Serves a request of `count` bytes. Returns whether another thread has answered it.
  func serve(_ request: UnsafeMutableRawBufferPointer, count: Int, data: UnsafeMutableRawBufferPointer) -> Bool {
    unsafe self.request = request
    unsafe self.data = data
    servedBefore = watch.served.load(ordering: .relaxed)
    return serve(begin(count), count)
  }

  /// Whether a request from the device was served since the current one, from a ring, began.
  var hasBeenOvertaken: Bool { watch.served.load(ordering: .acquiring) != servedBefore }

  /// Notes the request of `count` bytes that was received: other threads see it from now on.
  private func begin(_ count: Int) -> RequestHeader {
    let header = unsafe RequestHeader(UnsafeRawBufferPointer(rebasing: request[..<count]))
    served.begin(header)
    return header
  }

  /// Serves the current request, which has `count` bytes. Returns whether another thread has answered it.
  @discardableResult
  private func serve(_ header: RequestHeader, _ count: Int) -> Bool {
    defer { served.end() }
    if target.marks.take(header, after: target.counts.total) { return false }
    target.counts.count(header.operation)
    if header.operation == FUSE_INIT {
      unsafe target.negotiation.inspectRequest(UnsafeRawBufferPointer(rebasing: request[..<count]), header)
    }
    var buffer = unsafe fuse_buf()
    unsafe buffer.mem = request.baseAddress
    unsafe buffer.size = count
    unsafe fuse_session_process_buf(session, &buffer)
    guard wasAnswered else { return false }
    wasAnswered = false
    unsafe Memory.wipe(request)
    return true
  }

  /// Whether the current request can be served a second time: it carries no data, which might have been encrypted in
  /// place.
  var mayRepeat: Bool {
    switch fuse_opcode(rawValue: unsafe request.load(as: fuse_in_header.self).opcode) {
    case FUSE_WRITE, FUSE_SETXATTR: false
    default: true
    }
  }

  /// Whether a lock refuses a request, as far as that can be known without the store.
  func refusesWithoutStore(_ request: UnsafeRawBufferPointer) -> Bool {
    let header = unsafe RequestHeader(request)
    guard header.contents != nil, target.fileSystem.refuses(header) else { return false }
    target.counts.count(header.operation)
    return true
  }

  /// The same of the current request, but for attributes, which most callers may have of a locked file.
  var isRefused: Bool {
    let header = unsafe RequestHeader(UnsafeRawBufferPointer(request))
    return header.contents != .attributes && target.fileSystem.refuses(header)
  }

  /// Called before the current request is answered. Returns whether its worker may answer: no other thread has.
  private func claim() -> Bool {
    if served.claim() { return true }
    wasAnswered = true
    return false
  }

  /// The same for any thread that answers a request. A thread that is not a worker may always answer.
  static func claimAnswer() -> Bool {
    guard let worker = unsafe pthread_getspecific(key) else { return true }
    return unsafe Unmanaged<Worker>.fromOpaque(worker).takeUnretainedValue().claim()
  }

  /// Whether the current request moves much data or waits for a disk.
  private var mayTakeLong: Bool {
    let header = unsafe request.load(as: fuse_in_header.self)
    let operation = fuse_opcode(rawValue: header.opcode)
    let size =
      switch operation {
      case FUSE_READ: unsafe UnsafeRawBufferPointer(request).arguments(as: fuse_read_in.self).size
      case FUSE_WRITE: header.len
      default: operation.mayWaitForDisk ? UInt32.max : 0
      }
    return size > 1 << 14
  }

  /// Wipes a part of `data` that was sent, once it is no longer needed.
  static func wipe(_ sent: UnsafeRawBufferPointer) {
    if let answer = ofThread?.ringAnswer {
      answer.holdsSecrets = true
    } else {
      unsafe Memory.wipe(UnsafeMutableRawBufferPointer(mutating: sent))
    }
  }

  /// The worker of the calling thread, if it is one.
  static var ofThread: Worker? {
    unsafe pthread_getspecific(key).map { unsafe Unmanaged<Worker>.fromOpaque($0).takeUnretainedValue() }
  }

  /// The worker of the calling thread, which must be a worker.
  static var current: Worker {
    unsafe Unmanaged<Worker>.fromOpaque(pthread_getspecific(key)!).takeUnretainedValue()
  }

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let result = unsafe pthread_key_create(&key, nil)
    precondition(result == 0, "no thread-specific data key left")
    return key
  }()

  /// The arguments of the current request as the kernel sent them, since libfuse leaves some flags out.
  static func arguments<Arguments: BitwiseCopyable>(as type: Arguments.Type) -> Arguments {
    unsafe UnsafeRawBufferPointer(current.request).arguments(as: type)
  }
}
