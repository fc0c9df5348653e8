import Foundation
import Glibc
import Mounting
import Testing

/// The program `NotesServer`, and a client of HTTP that is enough for it.
final class Server {
  private let program: Program
  private let port: UInt16

  init(_ database: URL) throws {
    program = try Program(Program.beside("NotesServer"), [database.path])
    port = try #require(UInt16(program.answer()))
  }

  struct Response {
    var status = 0
    var head = ""
    var body = ""
  }

  /// Asks until it is answered with a status: it may hear later than a test of what has happened.
  func waits(for status: Int, _ method: String, _ path: String) throws -> Response {
    let deadline = ContinuousClock.now + .seconds(20)
    while true {
      let response = try request(method, path)
      if response.status == status { return response }
      try #require(ContinuousClock.now < deadline, "still \(response.status)")
      usleep(20_000)
    }
  }

  func request(_ method: String, _ path: String, _ body: String = "") throws -> Response {
    let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(socket) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let connected = unsafe withUnsafePointer(to: &address) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    try #require(connected == 0, "the service does not listen")
    let connection = FileHandle(fileDescriptor: socket, closeOnDealloc: false)
    let lines = [
      "\(method) \(path) HTTP/1.1", "Host: localhost", "Connection: close", "Content-Length: \(body.utf8.count)", "",
      body,
    ]
    try connection.write(contentsOf: Data(lines.joined(separator: "\r\n").utf8))
    let answer = String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
    let end = try #require(answer.range(of: "\r\n\r\n"), "no response: \(answer)")
    let head = String(answer[..<end.lowerBound])
    let status = head.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    return Response(status: status, head: head, body: String(answer[end.upperBound...]))
  }

  /// Asks it to end, and waits until it has.
  func terminate() {
    program.send(SIGTERM)
    program.wait()
  }

  var ending: Program.Ending? { program.ending }
}
