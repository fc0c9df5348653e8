import ProtectfsIO
import SystemPackage
import Testing

/// Waiting for several descriptors.
@Suite struct PollTests {
  @Test func eachEventIsReported() throws {
    let ends = try LocalSocket.pair()
    let own = LocalSocket(owning: ends.0)
    let other = LocalSocket(owning: ends.1)
    let event = try EventDescriptor()
    #expect(try Poll.wait(for: .readable(ends.0), .readable(event.rawValue), atMost: .zero) == [false, false])
    event.raise()
    #expect(try Poll.wait(for: .readable(ends.0), .readable(event.rawValue)) == [false, true])
    try other.send([1])
    #expect(try Poll.wait(for: .readable(ends.0), .readable(event.rawValue)) == [true, true])
    event.clear()
    #expect(try Poll.wait(for: .writable(ends.0), .readable(event.rawValue)) == [true, false])
    _ = consume own
  }

  /// So a caller may do without one of two descriptors.
  @Test func aNegativeDescriptorHasNoEvents() throws {
    #expect(try Poll.wait(for: .readable(-1), atMost: .milliseconds(1)) == [false])
  }

  @Test func theOtherEndIsClosed() throws {
    let ends = try LocalSocket.pair()
    let own = LocalSocket(owning: ends.0)
    _ = LocalSocket(owning: ends.1)
    #expect(try Poll.wait(for: .readable(ends.0)) == [true])
    _ = consume own
  }

  /// A file is watched by its name, also where several events come at once.
  @Test func aFileThatIsWritten() throws {
    let path = "/tmp/protectfs-watch-test.\(Process.number)"
    try Process.makeDirectory(path, mode: 0o700)
    let watch = try DirectoryWatch(Descriptor.open(PathName(path), [.readOnly, .directory]))
    let names = ["other", "a longer name than that", "wanted"].map { PathName("\(path)/\($0)") }
    for name in names { _ = try Descriptor.open(name, [.writeOnly, .create], mode: 0o600) }
    try watch.wait(for: "wanted")
    let root = try Descriptor.open("/", [.path])
    for name in names { try root.unlink(name) }
    try root.removeDirectory(PathName(path))
    #expect(throws: Errno.staleNFSFileHandle) { try watch.wait(for: "wanted") }
  }
}
