import Testing

@testable import ProtectfsClient

@Suite struct MountedFileSystemTests {
  @Test func lineIsParsed() throws {
    let line =
      #"412 29 0:51 / /home/me/a\040b rw,nosuid,nodev shared:9 - fuse.protectfs /home/me/x\134y rw,user_id=1000,group_id=100"#
    let mount = try #require(MountedFileSystem(line: Array(line.utf8)[...]))
    #expect(mount.mountPoint == "/home/me/a b")
    #expect(mount.backing == #"/home/me/x\y"#)
    #expect(mount.owner == 1000)
    #expect(mount.identifier == "412")
    #expect(mount.device == "0:51")
  }

  @Test func lineWithoutOptionalFieldsIsParsed() throws {
    let line = "412 29 0:51 / /mnt rw - fuse.protectfs /b rw,user_id=0,group_id=0,allow_other"
    let mount = try #require(MountedFileSystem(line: Array(line.utf8)[...]))
    #expect(mount.owner == 0 && mount.mountPoint == "/mnt")
  }

  @Test(arguments: [#"/\+12"#, #"/\08"#, #"/\400"#, #"/\1"#, #"/\"#])
  func whatIsNoEscapeIsLeft(_ path: String) throws {
    let line = "412 29 0:51 / \(path) rw - fuse.protectfs /b rw"
    #expect(try #require(MountedFileSystem(line: Array(line.utf8)[...])).mountPoint == path)
  }

  @Test(arguments: [
    "", "412 29 0:51 / /mnt rw - ext4 /dev/sda rw", "412 29 0:51 / /mnt rw shared:1", "- - - - - - - - -",
    "412 29 0:51 / /mnt rw - fuse.protectfs /b",
  ])
  func othersAreNone(_ line: String) {
    #expect(MountedFileSystem(line: Array(line.utf8)[...]) == nil)
  }

  /// An overlay says where it keeps what is written.
  @Test(arguments: [
    ("27", "ext4", nil), ("28", "overlay", "/media/root-rw/over lay"), ("29", "overlay", nil), ("30", "tmpfs", nil),
    ("2", nil, nil),
  ])
  func typesAndUpperDirectories(_ mount: String, _ type: String?, _ upper: String?) {
    let table = #"""
      27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
      28 1 0:51 / /a rw shared:1 master:2 - overlay over rw,lowerdir=/l,upperdir=/media/root-rw/over\040lay,workdir=/w
      29 1 0:52 / /b ro - overlay over ro,lowerdir=/l:/m
      30 1 0:53 / /run rw - tmpfs upperdir=/c rw,size=1k
      """#
    let found = MountedFileSystem.fileSystem(ofMount: mount, in: Array(table.utf8))
    #expect(found?.type == type && found?.upperDirectory == upper)
  }

  @Test func whatIsInMemory() {
    #expect(MountedFileSystem.isInMemory("/dev/shm"))
    #expect(!MountedFileSystem.isInMemory("/proc"))
    #expect(!MountedFileSystem.isInMemory("/nonexistent/path"))
  }

  @Test func rootIsOnNone() throws {
    #expect(try MountedFileSystem.containing("/") == nil)
  }

  @Test func missingPathIsAnError() {
    #expect(throws: ControlError.self) { try MountedFileSystem.containing("/nonexistent/path") }
  }
}

@Suite struct ControlSocketTests {
  @Test(arguments: [
    ("/", "-.sock"), ("/home/me/vault", "home-me-vault.sock"), ("/a-b", #"a\x2db.sock"#), ("/a/é", #"a-\xc3\xa9.sock"#),
    ("/a b", #"a\x20b.sock"#), (#"/a\b"#, #"a\x5cb.sock"#),
  ])
  func nameIsTheEscapedPath(_ path: String, _ name: String) {
    #expect(ControlSocket.name(forMountPoint: path) == name)
  }

  @Test func longNamesFitAndDiffer() {
    let start = "/" + String(repeating: "long/", count: 40)
    let first = ControlSocket.name(forMountPoint: start + "1")
    let second = ControlSocket.name(forMountPoint: start + "2")
    #expect(first != second)
    #expect(first.utf8.count == 69)
    #expect(first.hasPrefix("long-long-"))
  }
}
