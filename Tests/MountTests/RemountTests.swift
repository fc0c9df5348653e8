import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Options that change a mount, or belong to other programs.
  @Suite struct RemountTests {
    @Test(.enabled(if: getuid() == 0, "only root may remount")) func readOnlyAndBack() throws {
      try Volume.with { volume in
        // As mount(8) calls its helper: first with the mount's options, then with the requested ones.
        let helper = volume.directory.appending("mount.fuse.protectfs")
        try helper.makeSymbolicLink(to: PathName(Command.path))
        func remount(_ options: String) throws -> Program.Result {
          try Program.run([
            helper.description, volume.backing.description, volume.mountPoint.description, "-o",
            "nosuid,nodev,relatime,user_id=0,group_id=0,default_permissions,allow_other,remount,\(options)",
          ])
        }
        let path = volume.path("file")
        do {
          let writing = try OpenFile(path, O_RDWR | O_CREAT)
          try writing.write([1, 2, 3], at: 0)
          let busy = try remount("ro")
          #expect(busy.ending == .exited(19) && busy.output.contains("open for writing"), "\(busy.output)")
          try writing.write([4], at: 3)
        }
        let made = try remount("ro")
        #expect(made.succeeded, "\(made.output)")
        #expect(throws: Errno.readOnlyFileSystem) { try path.write("x") }
        #expect(throws: Errno.readOnlyFileSystem) { try path.setProtectionClass(.none) }
        #expect(throws: Errno.readOnlyFileSystem) { try path.unlink() }
        #expect(try path.contents() == [1, 2, 3, 4])
        let flags = try Program.run(["findmnt", "-no", "OPTIONS", volume.mountPoint.description]).output
        #expect(flags.hasPrefix("ro,nosuid,nodev,"), "\(flags)")
        try volume.lock()
        try volume.unlock()
        let back = try remount("rw")
        #expect(back.succeeded, "\(back.output)")
        try path.write("written again")
        #expect(try path.contents() == Array("written again".utf8))
        try volume.remount(["-o", "ro"])
        let refused = try remount("rw")
        #expect(refused.ending == .exited(7) && refused.output.contains("was mounted read-only"), "\(refused.output)")
        try volume.unmount()
        #expect(try remount("ro").ending == .exited(6))
      }
    }

    /// Access time options in /etc/fstab are for mount(8). A mount of another type would not be recognised.
    @Test func optionsOfOthers() throws {
      try Volume.with(["-o", "strictatime,nostrictatime,diratime,atime"]) { volume in
        try volume.path("file").write("x")
      }
      try Volume.store { volume in
        let refused = try Command.run([
          "mount", volume.backing.description, volume.mountPoint.description, "--device-key",
          volume.deviceKey.description, "-o", "subtype=x",
        ])
        #expect(refused.ending == .exited(64) && refused.output.contains("'subtype=x'"), "\(refused.output)")
        #expect(!volume.isMounted)
      }
    }
  }
}
