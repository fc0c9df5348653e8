import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Raises of files whose extended attributes the backing file system does not list: their names take more than 64 KiB
  /// (listxattr(2)), as those of xfs, Btrfs and tmpfs may.
  @Suite(.enabled(if: getuid() == 0, "only root may mount a backing file system")) struct UnlistedAttributesTests {
    /// A new key is refused, and nothing has changed then; the class changes without one.
    @Test(arguments: [0, 50_000]) func aRaiseIsRefused(_ length: Int) throws {
      try Volume.store(prepare: Self.mountBacking) { volume in
        defer { try? volume.backing.unmount(isLazy: true) }
        try volume.mount()
        try volume.unlock()
        let path = volume.path("file")
        let contents = pattern(1, count: length)
        try path.write(contents)
        try path.setExtendedAttribute("user.kept", to: [1, 2, 3])
        guard try Self.fill(volume.backingFile(of: path)) else {
          return print("skipped: tmpfs keeps no such attributes")
        }
        #expect(throws: Errno.argListTooLong) { try path.extendedAttributeNames() }

        #expect(throws: Errno.argListTooLong) { try path.setProtectionClass(.complete) }
        #expect(try path.protectionClass() == .standard)
        #expect(throws: Errno.argListTooLong) { try path.rekey() }
        #expect(try !path.isRekeyPending())
        #expect(try volume.status().pendingRekeys == 0)

        try path.setExtendedAttribute(PathName(ProtectionClass.rewrapAttributeName), to: Array("complete".utf8))
        #expect(try path.protectionClass() == .complete)
        #expect(try volume.status().pendingRekeys == 0)
        try expectSame(path.contents(), contents)
        #expect(try path.extendedAttribute("user.kept") == [1, 2, 3])
        try volume.lock()
        #expect(throws: Errno.permissionDenied) { try path.contents() }
        try volume.unmount()
      }
    }

    private static func mountBacking(_ directory: PathName) throws {
      let backing = directory.appending("backing")
      try backing.makeDirectory(mode: 0o700)
      let mounted = try Program.run(["mount", "-t", "tmpfs", "-o", "mode=700", "none", backing.description])
      try #require(mounted.succeeded, "\(mounted.output)")
    }

    /// Gives a file 70 KiB of names of attributes. Returns whether the file system keeps them, as tmpfs does since
    /// Linux 6.6.
    private static func fill(_ file: PathName) throws -> Bool {
      for number in 0..<350 {
        let name = "user.\(number)." + String(repeating: "x", count: 200)
        let error = failure(of: { () throws(Errno) in try file.setExtendedAttribute(PathName(name), to: [1]) })
        if error == .notSupportedOnSocket { return false }
        if let error { throw error }
      }
      return true
    }
  }
}
