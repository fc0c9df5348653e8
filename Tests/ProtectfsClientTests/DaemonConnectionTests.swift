import Glibc
import ProtectfsIO
import SystemPackage
import Testing

@testable import ProtectfsClient

/// Answers of whatever listens in a daemon's place.
@Suite struct DaemonConnectionTests {
  /// All of an answer has to come in time, however many pieces of it do.
  @Test func anAnswerThatComesInPieces() throws {
    let path = "/tmp/protectfs-pieces-\(UInt32.random(in: 0 ... .max)).sock"
    let answer = Array(#"{"parameters":{}}"#.utf8) + [0]
    let server = try LocalSocket()
    try server.bind(to: path)
    defer { unsafe unlink(path) }
    try server.listen(backlog: 1)
    let thread = Thread(name: "daemon") {
      // Spaces are part of a JSON text. Of a thousand the last would come after ten seconds at least.
      for spaces in [0, 1000] {
        guard let client = try? server.accept() else { return }
        // A daemon that answers and leaves before it is asked would break the pipe.
        var byte: [UInt8] = [1]
        while (try? client.receive(into: &byte)) == 1, byte != [0] {}
        for byte in [UInt8](repeating: UInt8(ascii: " "), count: spaces) + answer {
          guard (try? client.send([byte])) != nil else { break }
          Thread.sleep(microseconds: spaces > 0 ? 10_000 : 1)
        }
      }
    }
    for comesInTime in [true, false] {
      var connection = try DaemonConnection(socketPath: path)
      do throws(ControlError) {
        _ = try connection.call(.status, NoParameters(), returning: NoParameters.self, patience: comesInTime ? 30 : 1)
        #expect(comesInTime)
      } catch {
        #expect(!comesInTime && error.code == .noAnswer, "\(error)")
      }
    }
    thread.join()
  }
}
