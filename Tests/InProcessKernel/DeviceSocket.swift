import CFUSE
import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage

/// The kernel's end of a FUSE connection whose device is a socket: it sends requests as linux/fuse.h has them, and
/// hands each answer to who asked.
@safe package final class DeviceSocket: Sendable {
  /// The other end, which stands for `/dev/fuse`. It belongs to the session that serves it, which closes it.
  package let served: CInt

  /// The most bytes that one read or write carries: what any user's socket takes in one message.
  package static let maximumTransfer = 1 << 17

  private struct State {
    var answers: [UInt64: Answer] = [:]
    /// What the daemon has sent without being asked (`enum fuse_notify_code`), and of which inode.
    var notices: [Notice] = []
    var hasEnded = false
  }

  private struct Answer {
    let error: CInt
    let bytes: [UInt8]
  }

  /// A message of the daemon's own accord.
  package struct Notice: Sendable, Equatable {
    package let code: CInt
    package let inode: UInt64

    package init(code: CInt, inode: UInt64) {
      self.code = code
      self.inode = inode
    }
  }

  private let descriptor: CInt
  private let state = Monitor(.test, State())
  /// The kernel's numbers are even.
  private let number = Atomic<UInt64>(0)

  package init() throws(Errno) {
    var ends: (CInt, CInt) = (-1, -1)
    let made = unsafe withUnsafeMutableBytes(of: &ends) {
      unsafe socketpair(
        AF_UNIX, CInt(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue), 0, $0.bindMemory(to: CInt.self).baseAddress)
    }
    guard made == 0 else { throw Errno(rawValue: errno) }
    (descriptor, served) = ends
    // Room for several messages; the system gives less to users other than root, which is enough for one.
    var room: CInt = 8 << 20
    for end in [descriptor, served] {
      unsafe setsockopt(end, SOL_SOCKET, SO_SNDBUF, &room, socklen_t(MemoryLayout<CInt>.size))
    }
    Thread(name: "answers", stackSize: 1 << 19) { [descriptor, state] in
      Self.receive(from: descriptor, into: state)
      close(descriptor)
    }.detach()
  }

  /// Ends the connection, as an unmount does: who serves it finds that out, and requests without an answer fail.
  package func end() {
    state.update { state in
      if !state.hasEnded { shutdown(descriptor, CInt(SHUT_RDWR)) }
      state.hasEnded = true
    }
  }

  package var notices: [Notice] { state.read { $0.notices } }

  /// Sends a request, and waits for its answer: the bytes behind its header.
  ///
  /// - Throws: What the daemon answered; `ENOTCONN` when the connection has ended, `ETIMEDOUT` when no answer came
  ///   within a minute.
  package func ask(
    _ operation: fuse_opcode, of inode: UInt64, _ arguments: Message = Message(), by caller: CallerIdentity
  ) throws(Errno) -> [UInt8] {
    let number = try send(operation, inode, arguments, caller)
    let end = ContinuousClock.now + Self.patience
    let answer: Result<Answer, Errno> = state.wait { state, deadline in
      if let answer = state.answers.removeValue(forKey: number) { return .success(answer) }
      if state.hasEnded { return .failure(.socketNotConnected) }
      deadline = end
      return ContinuousClock.now >= end ? .failure(.timedOut) : nil
    }
    let found = try answer.get()
    if found.error != 0 { throw Errno(rawValue: -found.error) }
    return found.bytes
  }

  /// Sends a request, and leaves its answer for ``waitForAnswer(to:)``; returns its number.
  package func begin(
    _ operation: fuse_opcode, of inode: UInt64, _ arguments: Message = Message(), by caller: CallerIdentity
  ) throws(Errno) -> UInt64 {
    try send(operation, inode, arguments, caller)
  }

  /// The error that a request is answered with, as the protocol has it: negative, or 0.
  package func waitForAnswer(to number: UInt64) -> CInt {
    let end = ContinuousClock.now + Self.patience
    return state.wait { state, deadline in
      if let answer = state.answers.removeValue(forKey: number) { return answer.error }
      if state.hasEnded { return -ENOTCONN }
      deadline = end
      return ContinuousClock.now >= end ? -ETIMEDOUT : nil
    }
  }

  /// Whether an answer has come, and nobody has asked for it yet.
  package func hasAnswer(to number: UInt64) -> Bool { state.read { $0.answers[number] != nil } }

  /// Returns when `condition` holds of what the daemon has sent of its own accord.
  package func waitForNotices(_ condition: ([Notice]) -> Bool) -> Bool {
    let end = ContinuousClock.now + Self.patience
    return state.wait { state, deadline in
      if condition(state.notices) { return true }
      deadline = end
      return ContinuousClock.now >= end || state.hasEnded ? false : nil
    }
  }

  /// How long an answer may take on the slowest machine.
  private static let patience = Duration.seconds(60)

  /// Sends a request that has no answer. Where the connection has ended, nobody wants to know.
  package func tell(_ operation: fuse_opcode, of inode: UInt64, _ arguments: Message) {
    _ = try? send(operation, inode, arguments, CallerIdentity(user: 0, group: 0, process: 0, umask: 0))
  }

  @discardableResult
  private func send(
    _ operation: fuse_opcode, _ inode: UInt64, _ arguments: Message, _ caller: CallerIdentity
  ) throws(Errno) -> UInt64 {
    let number = number.wrappingAdd(2, ordering: .relaxed).newValue
    var header = fuse_in_header()
    header.len = UInt32(MemoryLayout<fuse_in_header>.size + arguments.bytes.count)
    header.opcode = operation.rawValue
    header.unique = number
    header.nodeid = inode
    header.uid = caller.user
    header.gid = caller.group
    header.pid = UInt32(bitPattern: caller.process)
    var message = Message()
    message.append(header)
    message.append(bytes: arguments.bytes)
    let ended = state.read { state in
      if state.hasEnded { return ENOTCONN }
      return unsafe message.bytes.withUnsafeBytes {
        unsafe Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) < 0 ? errno : 0
      }
    }
    if ended != 0 { throw Errno(rawValue: ended) }
    return number
  }

  /// The body of the thread that takes answers, until the other end is closed.
  private static func receive(from descriptor: CInt, into state: Monitor<State>) {
    let buffer = AlignedBuffer(count: 1 << 21)
    while true {
      let count = unsafe recv(descriptor, buffer.bytes.baseAddress, buffer.bytes.count, 0)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      let bytes = unsafe UnsafeRawBufferPointer(rebasing: buffer.bytes[..<count])
      let header = unsafe bytes.load(as: fuse_out_header.self)
      let rest = unsafe Array(bytes[MemoryLayout<fuse_out_header>.size...])
      state.update { state in
        if header.unique == 0 {
          state.notices.append(Notice(code: header.error, inode: rest.value(as: UInt64.self)))
        } else {
          state.answers[header.unique] = Answer(error: header.error, bytes: rest)
        }
      }
    }
    state.update { $0.hasEnded = true }
  }
}

/// Who makes a call.
package struct CallerIdentity: Sendable {
  package var user: UInt32
  package var group: UInt32
  package var process: CInt
  package var umask: UInt32

  package init(user: UInt32, group: UInt32, process: CInt, umask: UInt32) {
    self.user = user
    self.group = group
    self.process = process
    self.umask = umask
  }

  /// This process.
  package static var current: CallerIdentity {
    CallerIdentity(user: geteuid(), group: getegid(), process: getpid(), umask: 0o022)
  }
}
