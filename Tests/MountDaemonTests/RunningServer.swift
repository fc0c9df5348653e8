import Glibc
import Logging
import ProtectfsClient
import ProtectfsIO
import SystemPackage
import Testing

@testable import MountDaemon

/// A server for a separate mount point, stopped when the value is destroyed.
final class RunningServer: Sendable {
  let daemon: FakeDaemon
  let server: ControlServer
  let mountPoint: String
  /// A directory in which no one else looks for servers, since that would be one more client.
  private let ownDirectory: String?

  init(
    owner: UInt32 = geteuid(), limits: ControlServer.Limits = ControlServer.Limits(), isAmongOthers: Bool = false,
    hasThreads: Bool = true
  ) throws {
    let number = UInt64.random(in: 0...UInt64.max)
    mountPoint = "/tests/control/\(number)"
    daemon = FakeDaemon(owner: owner)
    ownDirectory = isAmongOthers ? nil : "/tmp/protectfs-control-\(number)"
    server = try ControlServer(
      mountPoint: mountPoint, control: daemon, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
      limits: limits, directories: ownDirectory.map { [$0] } ?? ControlSocket.directories(of: geteuid()),
      startThread: { (body) throws(Errno) in
        guard hasThreads else { throw .resourceTemporarilyUnavailable }
        try Thread(starting: "control client", body).detach()
      })
    server.start()
  }

  deinit {
    server.stop()
    if let ownDirectory { _ = unsafe rmdir(ownDirectory) }
  }

  func connect() throws -> DaemonConnection { try DaemonConnection(socketPath: server.socketPath) }

  /// A connection on which any bytes can be sent.
  func connectRaw() throws -> LocalSocket {
    let socket = try LocalSocket()
    try socket.connect(to: server.socketPath)
    try socket.setTimeout(.receiving, seconds: 60)
    return socket
  }
}

/// Everything until the server closes the connection or sends nothing more.
func receive(_ socket: borrowing LocalSocket, untilNUL: Bool = false) -> (text: String, isClosed: Bool) {
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 4096)
  while true {
    guard let count = try? socket.receive(into: &chunk) else {
      return (String(decoding: bytes, as: UTF8.self), errno != EAGAIN)
    }
    if count == 0 { return (String(decoding: bytes, as: UTF8.self), true) }
    bytes += chunk[..<count]
    if untilNUL, bytes.last == 0 { return (String(decoding: bytes.dropLast(), as: UTF8.self), false) }
  }
}

/// The reply to a call.
func call(_ method: String, more: Bool = false, on socket: borrowing LocalSocket) throws -> String {
  try socket.send(Array(#"{"method":"org.protectfs.Daemon.\#(method)","more":\#(more)}"#.utf8) + [0])
  return receive(socket, untilNUL: true).text
}

func withText<Result>(_ text: String, _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
  try unsafe Array(text.utf8).withUnsafeBytes(body)
}
