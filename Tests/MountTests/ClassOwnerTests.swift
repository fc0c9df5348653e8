import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// The users who may change a mode may change a class. Write permission on a file or directory is not enough.
  @Suite(.enabled(if: getuid() == 0, "only root can be other users")) struct ClassOwnerTests {
    private static let attribute = PathName(ProtectionClass.attributeName)
    private static let hasOverlays = (try? PathName("/proc/filesystems").text().contains("overlay")) == true

    @Test(arguments: [false, true]) func othersMayNotChangeAClass(ofADirectory isDirectory: Bool) throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o755)
        let path = volume.path("other's")
        if isDirectory { try path.makeDirectory() } else { try path.write("x") }
        // The stranger may write a file, but not read it.
        try path.give(to: .owner, mode: isDirectory ? 0o777 : 0o622)
        try path.setProtectionClass(.complete)
        for other in [Identity.stranger, .member, .companion] {
          #expect(throws: Errno.notPermitted) {
            try other.perform { () throws(Errno) in try path.setProtectionClass(.none) }
          }
          #expect(throws: Errno.notPermitted) {
            try other.perform { () throws(Errno) in try path.removeExtendedAttribute(Self.attribute) }
          }
        }
        #expect(try path.protectionClass() == .complete)
        #expect(try path.extendedAttributeNames().contains(ProtectionClass.attributeName))
        try Identity.owner.perform { () throws(Errno) in
          try path.removeExtendedAttribute(Self.attribute)
          try path.setProtectionClass(.completeUnlessOpen)
        }
        #expect(try path.protectionClass() == .completeUnlessOpen)
        try path.setProtectionClass(.complete)
      }
    }

    /// Nobody but root takes another user's file for the predecessor of their own.
    @Test func aNameThatWasLeftGivesOthersNoClass() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o777)
        let (lock, own) = (volume.path("lock"), volume.path("own"))
        try own.write("x")
        try own.give(to: .owner, mode: 0o644)
        try Identity.stranger.perform { () throws(Errno) in
          try lock.write("x")
          try lock.setProtectionClass(.complete)
          try lock.unlink()
        }
        try Identity.owner.perform { () throws(Errno) in try lock.write("x") }
        #expect(try lock.protectionClass() == .completeUntilFirstUserAuthentication)
        try Identity.owner.perform { () throws(Errno) in
          try lock.setProtectionClass(.complete)
          try lock.unlink()
        }
        try volume.lock()
        try Identity.stranger.perform { () throws(Errno) in try own.rename(to: lock) }
        #expect(try lock.protectionClass() == .completeUntilFirstUserAuthentication)
      }
    }

    /// A rename over a file of explicit class changes the class of the renamed file.
    @Test func aRenameChangesNoClassOfAnothersFile() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o777)
        let (letter, trap) = (volume.path("letter"), volume.path("trap"))
        try letter.write("secret")
        try letter.give(to: .owner, mode: 0o600)
        try Identity.stranger.perform { () throws(Errno) in
          try trap.write("x")
          try trap.setProtectionClass(.none)
        }
        let denied = failure { () throws(Errno) in
          try Identity.stranger.perform { () throws(Errno) in try letter.rename(to: trap) }
        }
        #expect(denied == .notPermitted)
        #expect(try letter.protectionClass() == .completeUntilFirstUserAuthentication)
        #expect(try trap.contents() == Array("x".utf8), "nothing is replaced")
        // If no class is taken over, the directory's mode decides.
        try Identity.stranger.perform { () throws(Errno) in try letter.rename(to: volume.path("moved")) }
        try Identity.owner.perform { () throws(Errno) in try volume.path("moved").rename(to: trap) }
        #expect(try trap.protectionClass() == .none)
        #expect(try trap.contents() == Array("secret".utf8))
      }
    }

    /// overlayfs calls as root, on behalf of a user whose write permission it has checked itself.
    @Test(.enabled(if: hasOverlays, "there is no overlayfs")) func throughAnOverlay() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o755)
        for name in ["upper", "work", "lower"] { try volume.path(name).makeDirectory() }
        let merged = volume.directory.appending("merged")
        try merged.makeDirectory()
        let mount = volume.mountPoint
        let mounted = try Program.run([
          "mount", "-t", "overlay", "overlay", "-o",
          "lowerdir=\(mount)/lower,upperdir=\(mount)/upper,workdir=\(mount)/work", merged.description,
        ])
        try #require(mounted.succeeded, "\(mounted.output)")
        defer { try? merged.unmount(isLazy: false) }
        let file = merged.appending("file")
        try file.write("x")
        try file.give(to: .owner, mode: 0o600)
        try Identity.owner.perform { () throws(Errno) in try file.setProtectionClass(.complete) }
        #expect(try volume.path("upper/file").protectionClass() == .complete)
      }
    }

    /// CAP_FOWNER is required, not user 0: in the user namespace of the file's owner.
    @Test(
      .enabled(
        if: Program.isInstalled("setpriv") && Program.isInstalled("setfattr"), "setpriv or setfattr is not installed"))
    func theCapabilityDecides() throws {
      try Volume.with { volume in
        try volume.mountPoint.setMode(0o755)
        let file = volume.path("file")
        try file.write("x")
        try file.give(to: .owner, mode: 0o622)
        func set(_ name: String, _ launcher: [String]) throws -> Program.Result {
          try Program.run(launcher + ["setfattr", "-n", ProtectionClass.attributeName, "-v", name, file.description])
        }
        let stranger = Identity.stranger.launcher
        let capable = try set("complete", stranger + ["--inh-caps=+fowner", "--ambient-caps=+fowner"])
        #expect(capable.succeeded, "\(capable.output)")
        #expect(try file.protectionClass() == .complete)
        let root = try set("none", ["setpriv", "--inh-caps=-fowner", "--bounding-set=-fowner"])
        #expect(root.ending == .exited(1) && root.output.contains("not permitted"), "\(root.output)")
        // Root of a namespace that the stranger has created, in which the owner is not mapped.
        let namespace = stranger + ["unshare", "--user", "--map-root-user"]
        if try Program.run(namespace + ["true"]).succeeded {
          let own = try set("none", namespace)
          #expect(own.ending == .exited(1) && own.output.contains("not permitted"), "\(own.output)")
        }
        #expect(try file.protectionClass() == .complete)
      }
    }
  }
}
