import Glibc
import ProtectfsIO
import SystemPackage
import Testing

@testable import MountDaemon

/// Log lines that are not read.
@Suite struct LogFileTests {
  /// A pipe that is not read blocks no writer. It gets only whole lines.
  @Test(arguments: [100, 3000, 5000]) func aPipeThatNobodyReads(length: Int) throws {
    let path = "/tmp/protectfs-log-test.\(getpid()).\(length)"
    let isMade = unsafe mkfifo(path, 0o600) == 0
    try #require(isMade)
    defer { unsafe unlink(path) }
    let reader = try Descriptor.open(PathName(path), [.readOnly, .nonBlocking]).release()
    defer { close(reader) }
    let file = try LogFile(path: path)
    let line = String(repeating: "x", count: length) + "\n"
    for _ in 0..<2000 { file.write(line) }
    var written = [UInt8](repeating: 0, count: 1 << 20)
    written.removeSubrange(unsafe max(0, read(reader, &written, written.count))...)
    #expect(written.count > 16_000 && written.last == UInt8(ascii: "\n"))
    let lines = written.split(separator: UInt8(ascii: "\n"))
    #expect(lines.allSatisfy { $0.count == min(length, 4095) })
  }

  /// Too many threads are an error, and do not end the process.
  @Test func aThreadThatCannotBeStarted() {
    #expect(throws: Errno.resourceTemporarilyUnavailable) {
      try Thread(starting: "none", stackSize: 1 << 47) {}
    }
  }
}
