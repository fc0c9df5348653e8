import FoundationEssentials
import ProtectfsIO
import SystemPackage

/// A connection to the daemon of one mount. It makes one call at a time and waits for the reply.
///
/// ```swift
/// var daemon = try DaemonConnection(mountPoint: "/home/me/private")
/// try daemon.lock(gracePeriod: .zero)
/// print(try daemon.status().state)
/// ```
///
/// The protocol is Varlink (varlink.org): JSON messages, each terminated by a NUL byte, over a Unix socket.
public struct DaemonConnection: ~Copyable, Sendable {
  let socket: LocalSocket
  private var received: [UInt8] = []

  /// Connects to the daemon of the mount that contains a file or directory, which may be the mount point itself.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/notMounted``, ``ControlError/Code-swift.enum/noAnswer`` or
  ///   ``ControlError/Code-swift.enum/notPermitted``.
  public init(mountPoint path: String) throws(ControlError) {
    guard let mount = try MountedFileSystem.containing(path) else {
      throw ControlError(.notMounted, "\(path) is not on a protectfs mount; mount it with 'protectfs mount'")
    }
    try self.init(to: mount)
  }

  /// Connects to the daemon of a mount.
  public init(to mount: MountedFileSystem) throws(ControlError) { try self.init(to: mount, patience: 30) }

  /// The same, for which a daemon that was stopped has so many seconds.
  init(to mount: MountedFileSystem, patience: Int) throws(ControlError) {
    var failure = Errno.noSuchFileOrDirectory
    let all = MountedFileSystem.all()
    for candidate in [mount] + all.filter({ $0.device == mount.device && $0 != mount }) {
      let name = ControlSocket.name(forMountPoint: candidate.mountPoint)
      // Where it was bound or moved over another one, that one's daemon answers.
      let isOfOthers = all.contains { $0.mountPoint == candidate.mountPoint && $0.device != mount.device }
      for directory in ControlSocket.directories(of: mount.owner) {
        do throws(Errno) {
          let location = ControlSocket(directory: directory, name: name)
          if isOfOthers, Self.status(of: mount, at: location) == nil { continue }
          try self.init(at: location, owner: mount.owner, patience: patience)
          return
        } catch .noSuchFileOrDirectory {
          continue
        } catch {
          failure = error
        }
      }
    }
    // Its path may have changed since it was mounted. What is mounted where a daemon says is that daemon's. Of a store
    // that is mounted twice, nothing says whose this is.
    var daemons: [Int32: ControlSocket] = [:]
    for daemon in ControlSocket.daemons(of: mount.owner) {
      guard let status = Self.status(of: mount, at: daemon.socket),
        !all.contains(where: { $0.mountPoint == status.mountPoint && $0.device != mount.device })
      else { continue }
      daemons[status.processID] = daemon.socket
    }
    if daemons.count == 1, let socket = daemons.values.first,
      let connection = try? DaemonConnection(at: socket, owner: mount.owner, patience: patience)
    {
      self = connection
      return
    }
    if failure == .permissionDenied || failure == .notPermitted, Process.identity.user != 0 {
      throw ControlError(
        .notPermitted, "\(mount.mountPoint) was mounted by user \(mount.owner); ask as that user or as root")
    }
    throw ControlError(
      .noAnswer,
      "the daemon of \(mount.mountPoint) does not answer (\(failure)); 'protectfs unmount' cleans up after a dead one")
  }

  /// The status of the daemon at a socket, if it says in time that it serves the store of a mount.
  private static func status(of mount: MountedFileSystem, at location: ControlSocket) -> DaemonStatus? {
    guard var daemon = try? DaemonConnection(at: location, owner: mount.owner, patience: 2),
      let status = try? daemon.status(patience: 2), status.backing == mount.backing
    else { return nil }
    return status
  }

  /// Connects to the socket with a path, which must belong to a daemon of the user or of root.
  public init(socketPath path: String) throws(ControlError) {
    do throws(Errno) {
      let socket = try LocalSocket()
      try socket.connect(to: path)
      try self.init(socket, owner: Process.identity.user)
    } catch {
      throw ControlError(.noAnswer, "nothing answers at \(path) (\(error))")
    }
  }

  /// Connects to the daemon of a user at a socket.
  package init(at location: ControlSocket, owner: UInt32, patience: Int = 30) throws(Errno) {
    let socket = try SocketDirectory(opening: location.directory, of: owner)
      .connect(to: location.name, patience: patience)
    try self.init(socket, owner: owner)
  }

  /// The daemon's process; `nil` if this process cannot see it.
  package var processID: Int32? {
    guard let process = try? socket.peerProcess(), process > 0 else { return nil }
    return process
  }

  /// Takes over a connected socket after a check of the user at the other end.
  private init(_ socket: consuming LocalSocket, owner: UInt32) throws(Errno) {
    let peer = try socket.peerUser()
    guard peer == owner || peer == 0 else { throw .notPermitted }
    self.socket = socket
  }

  deinit {
    // The daemon sees at once that the client is gone, even if a canceller or a child process has the socket too.
    socket.shutDown()
  }

  // MARK: Messages

  /// Sends a call and returns the parameters of its only reply.
  ///
  /// - Parameter patience: the seconds after which a silent daemon counts as hung; 0 for no limit.
  mutating func call<Parameters: Encodable & Sendable, Reply: Codable & Sendable>(
    _ method: ControlInterface.Method, _ parameters: Parameters, returning: Reply.Type = Reply.self, patience: Int = 30
  ) throws(ControlError) -> Reply {
    try send(method, parameters)
    return try receive(Reply.self, patience: patience).parameters
  }

  /// Sends a call with secrets and waits for its reply, which has no parameters.
  mutating func call(_ message: borrowing SecretMessage) throws(ControlError) {
    try send(message)
    _ = try receive(NoParameters.self, patience: 120)
  }

  /// Sends a call with secrets.
  func send(_ message: borrowing SecretMessage) throws(ControlError) {
    do throws(Errno) {
      try unsafe message.withBytes { (bytes) throws(Errno) in try unsafe socket.send(bytes) }
    } catch {
      throw Self.connectionLost(error)
    }
  }

  /// Sends a call.
  func send<Parameters: Encodable & Sendable>(
    _ method: ControlInterface.Method, _ parameters: Parameters, more: Bool? = nil
  ) throws(ControlError) {
    let call = Call(method: method.qualifiedName, parameters: parameters, more: more)
    guard let message = try? JSONEncoder().encode(call) else {
      throw ControlError(.invalidRequest, "the parameters of \(method.rawValue) cannot be written as JSON")
    }
    do throws(Errno) {
      try socket.send(Array(message) + [0])
    } catch {
      throw Self.connectionLost(error)
    }
  }

  /// Waits for a reply.
  ///
  /// - Throws: the daemon's error, if the reply is one.
  mutating func receive<Reply: Codable & Sendable>(
    _ type: Reply.Type, patience: Int
  ) throws(ControlError) -> (parameters: Reply, continues: Bool) {
    let message = Data(try nextMessage(patience: patience))
    let decoder = JSONDecoder()
    guard let head = try? decoder.decode(VarlinkReply<ErrorParameters>.self, from: message) else {
      throw Self.notUnderstood
    }
    if let error = head.error { throw Self.error(named: error, message: head.parameters?.message) }
    guard let reply = try? decoder.decode(VarlinkReply<Reply>.self, from: message),
      let parameters = reply.parameters ?? NoParameters() as? Reply
    else { throw Self.notUnderstood }
    return (parameters, reply.continues ?? false)
  }

  /// Whether the next message was received already.
  var hasMessage: Bool { received.contains(0) }

  /// The bytes of the next message, without its NUL. All of it has to come in time.
  private mutating func nextMessage(patience: Int) throws(ControlError) -> [UInt8] {
    do throws(Errno) {
      let end = ContinuousClock.now + .seconds(patience)
      var chunk = [UInt8](repeating: 0, count: 8192)
      while true {
        if let end = received.firstIndex(of: 0) {
          let message = Array(received[..<end])
          received.removeSubrange(...end)
          return message
        }
        guard received.count <= ControlInterface.longestMessage else { throw .messageTooLong }
        let left = Int((end - .now).components.seconds) + 1
        if patience > 0, left < 1 { throw .wouldBlock }
        try socket.setTimeout(.receiving, seconds: patience > 0 ? min(left, patience) : 0)
        let count = try socket.receive(into: &chunk)
        guard count > 0 else { throw .connectionReset }
        received += chunk[..<count]
      }
    } catch {
      throw Self.connectionLost(error)
    }
  }

  static var notUnderstood: ControlError {
    ControlError(.notUnderstood, "the daemon's answer is not understood; is it of another version?")
  }

  private static func connectionLost(_ error: Errno) -> ControlError {
    if error == .wouldBlock || error == .resourceTemporarilyUnavailable {
      return ControlError(.noAnswer, "the daemon does not answer in time")
    }
    if error == .messageTooLong { return notUnderstood }
    return ControlError(.noAnswer, "the daemon closed the connection (\(error))")
  }

  private static func error(named name: String, message: String?) -> ControlError {
    let prefix = ControlInterface.name + "."
    guard name.hasPrefix(prefix) else {
      return ControlError(.notUnderstood, "the daemon answered \(name); is it of another version?")
    }
    let code = ControlError.Code(rawValue: String(name.dropFirst(prefix.count)))
    return ControlError(code ?? .failed, message ?? "the daemon answered \(name)")
  }
}
