import Cryptography
import ProtectfsIO
import Testing

@testable import protectfs

@Suite struct NewSecretFileTests {
  /// A command that fails leaves no empty file behind, and none that another run would refuse to overwrite.
  @Test func staysOnlyIfItIsWritten() throws {
    let path = "/tmp/protectfs-secret.\(Process.number).\(UInt64.random(in: 0...UInt64.max))"
    defer { try? Descriptor.open("/tmp", [.path, .directory]).unlink(PathName(path)) }
    func content() -> String? {
      let bytes = try? Descriptor.open(PathName(path), [.readOnly]).readAll(limit: 100)
      return bytes.map { String(decoding: $0, as: UTF8.self) }
    }
    var file: NewSecretFile? = try NewSecretFile(path: path)
    #expect(content() == "")
    #expect(throws: CommandFailure.self) { _ = try NewSecretFile(path: path) }
    #expect(content() == "", "what was there is nobody else's to take away")
    file = nil
    #expect(content() == nil)
    file = try NewSecretFile(path: path)
    try file?.write(SecretBytes(Array("secret".utf8)), newline: true)
    file = nil
    #expect(content() == "secret\n")
  }
}
