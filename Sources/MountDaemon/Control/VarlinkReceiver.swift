import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Reads the messages of one client into a buffer of fixed size, and overwrites each once it has been used.
@safe struct VarlinkReceiver: ~Copyable {
  private let buffer: UnsafeMutableRawBufferPointer
  /// The bytes received so far.
  private var count = 0

  init() {
    unsafe buffer = .allocate(byteCount: ControlInterface.longestMessage + 1, alignment: 4096)
    unsafe Memory.keepOutOfCoreDumps(buffer)
  }

  deinit {
    unsafe Memory.wipe(buffer)
    unsafe buffer.deallocate()
  }

  /// Waits for the next message and calls `body` with it, without its NUL. It is overwritten when `body` returns.
  ///
  /// - Throws: `ended`, `timedOut`, `tooLong`, or what `body` throws.
  mutating func withNextMessage<Result: ~Copyable>(
    from socket: borrowing LocalSocket, limits: ControlServer.Limits,
    _ body: (UnsafeMutableRawBufferPointer) throws(MessageError) -> Result
  ) throws(MessageError) -> Result {
    let length = try receiveMessage(from: socket, limits: limits)
    defer { dropFirst(length + 1) }
    return try unsafe body(UnsafeMutableRawBufferPointer(rebasing: buffer[..<length]))
  }

  /// Receives until a NUL is in the buffer; returns its place.
  private mutating func receiveMessage(
    from socket: borrowing LocalSocket, limits: ControlServer.Limits
  ) throws(MessageError) -> Int {
    var searched = 0
    var deadline = Self.now() + (count == 0 ? limits.idle : limits.message)
    while true {
      if let end = unsafe buffer[searched..<count].firstIndex(of: 0) { return end }
      searched = count
      guard unsafe count < buffer.count else { throw .tooLong }
      let time = deadline - Self.now()
      guard time > .zero, (try? Poll.wait(for: .readable(socket.rawValue), atMost: time)) != [false] else {
        throw .timedOut
      }
      let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[count...])
      let received: Int
      do throws(Errno) { received = try unsafe socket.receive(into: rest) } catch { throw .ended }
      guard received > 0 else { throw .ended }
      // However slowly the rest trickles in, a message that has begun has one deadline.
      if count == 0 { deadline = Self.now() + limits.message }
      count += received
    }
  }

  /// Moves what follows a message to the front, and overwrites the place it had.
  private mutating func dropFirst(_ used: Int) {
    let rest = count - used
    if rest > 0 {
      unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[used..<count]))
    }
    unsafe Memory.wipe(UnsafeMutableRawBufferPointer(rebasing: buffer[rest..<count]))
    count = rest
  }

  private static func now() -> Duration {
    .nanoseconds(MonotonicClock.nanoseconds)
  }
}
