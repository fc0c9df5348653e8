import ProtectfsIO
import Testing

@testable import protectfs

/// A mount point of logins over which nothing is mounted.
struct LoginMountPointTests {
  private static func with(_ body: (String, () throws -> UInt32) throws -> Void) throws {
    let path = "/tmp/protectfs-login.\(Process.number).\(UInt64.random(in: 0...UInt64.max))"
    try Process.makeDirectory(path, mode: 0o700)
    try Process.makeDirectory("\(path)/plain", mode: 0o700)
    defer {
      let parent = try? Descriptor.open("/tmp", [.path, .directory])
      try? parent?.removeDirectory(PathName("\(path)/plain"))
      try? parent?.removeDirectory(PathName(path))
    }
    try body(path) { try Descriptor.open(PathName(path), [.path]).status().permissions & 0o777 }
  }

  /// No more plaintext comes to what is there already, unless a mount is wanted over it.
  @Test func oneWithContentsIsNotWrittenTo() throws {
    try Self.with { path, mode in
      try LoginSettings.setWritable(false, path, coversContents: true)
      #expect(try mode() == 0o700)
      try LoginSettings.setWritable(false, path)
      #expect(try mode() == 0o500)
      try LoginSettings.setWritable(true, path)
      #expect(try mode() == 0o700)
    }
  }

  /// What to type then.
  @Test func theRefusalSaysHowToMoveThemAway() throws {
    try Self.with { path, _ in
      func refusal() -> String? {
        do throws(CommandFailure) {
          _ = try MountPoint.checked(path, backing: "/nonexistent", coversContents: false)
          return nil
        } catch { return error.message }
      }
      let start = "\(path) is not empty, and what is in it would be hidden; "
      #expect(refusal() == "\(start)choose an empty directory, or give -o nonempty")
      try LoginSettings.setWritable(false, path)
      #expect(refusal() == "\(start)this moves it away: chmod u+w \(path) && mv \(path) \(path).plain && mkdir \(path)")
      try LoginSettings.setWritable(true, path)
    }
  }
}
