import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// `user.protectfs.state` of the root: the state of the mount, for everyone who may list it.
  @Suite struct StateAttributeTests {
    private static let name = PathName(LockState.attributeName)

    private func state(of volume: Volume) throws -> String {
      String(decoding: try volume.mountPoint.extendedAttribute(Self.name), as: UTF8.self)
    }

    @Test func followsTheState() throws {
      try Volume.with(["-o", "allow_other,inactive=1"], unlocked: false) { volume in
        #expect(try state(of: volume) == "beforeFirstUnlock")
        try volume.unlock()
        #expect(try state(of: volume) == "unlocked")
        try volume.path("directory").makeDirectory()
        try volume.announceLock(gracePeriod: .seconds(60))
        #expect(try state(of: volume) == "gracePeriod")
        #expect(try LockState(ofMountAt: volume.path("directory").description) == .gracePeriod)
        try volume.unlock()
        #expect(try state(of: volume) == "unlocked")
        try volume.lock()
        #expect(["locked", "inactive"].contains(try state(of: volume)))
        try volume.wait(for: .inactive)
        #expect(try state(of: volume) == "inactive")
        #expect(try LockState(ofMountAt: volume.mountPoint.description) == .inactive)
      }
    }

    /// It is not an attribute of files, and cannot be changed: it fails with an error that copying programs ignore.
    @Test func isReadOfTheRootOnly() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        let directory = volume.path("directory")
        try file.write("x")
        try directory.makeDirectory()
        try volume.path("link").makeSymbolicLink(to: "file")
        for path in [file, directory, volume.path("link")] {
          #expect(throws: Errno.noData) { try path.extendedAttribute(Self.name) }
        }
        for path in [file, directory, volume.mountPoint] {
          for mode in [AttributeMode.createOrReplace, .create, .replace] {
            #expect(throws: Errno.notSupportedOnSocket) {
              try path.setExtendedAttribute(Self.name, to: Array("locked".utf8), mode: mode)
            }
          }
          #expect(throws: Errno.notSupportedOnSocket) { try path.removeExtendedAttribute(Self.name) }
          #expect(try !path.extendedAttributeNames().contains(LockState.attributeName))
        }
        #expect(try state(of: volume) == "unlocked")
        let command = "getfattr --only-values -n user.protectfs.state '\(volume.mountPoint)'"
        #expect(try Program.run(["sh", "-c", command]).output.hasSuffix("unlocked"))
      }
    }

    @Test(.enabled(if: Program.isInstalled("setpriv"), "setpriv is not installed"))
    func othersMayRead() throws {
      try Volume.with { volume in
        func read() throws -> Program.Result {
          try Program.run([
            "setpriv", "--reuid=4321", "--regid=4321", "--clear-groups", "getfattr", "--only-values", "-n",
            "user.protectfs.state", volume.mountPoint.description,
          ])
        }
        try volume.directory.setMode(0o755)
        try volume.mountPoint.setMode(0o755)
        try volume.lock()
        #expect(try read().output.hasSuffix("locked"))
        try volume.mountPoint.setMode(0o711)
        #expect(try !read().succeeded)
      }
    }

    /// Through a bind mount of a directory below the root, the root is found.
    @Test func throughABindMount() throws {
      try Volume.with { volume in
        try volume.path("directory").makeDirectory()
        let bound = volume.directory.appending("bound")
        try bound.makeDirectory()
        let source = volume.path("directory").description
        try #require(try Program.run(["mount", "--bind", source, bound.description]).succeeded)
        defer { try? bound.unmount(isLazy: true) }
        #expect(throws: Errno.noData) { try bound.extendedAttribute(Self.name) }
        #expect(try LockState(ofMountAt: bound.description) == .unlocked)
      }
    }

    @Test func elsewhereThereIsNone() throws {
      #expect(throws: Errno.notSupported) { try LockState(ofMountAt: "/") }
      #expect(throws: Errno.noSuchFileOrDirectory) { try LockState(ofMountAt: "/nonexistent") }
      try Volume.with { volume in
        volume.kill()
        #expect(throws: Errno.socketNotConnected) { try LockState(ofMountAt: volume.mountPoint.description) }
      }
    }

    /// While keys are being wiped, it is answered at once and says that the lock is not complete. A program that reads
    /// `locked` finds nothing readable.
    @Test func answersDuringTheLock() throws {
      try Volume.with(defaultClass: .complete) { volume in
        let file = volume.path("file")
        for _ in 0..<5 {
          try file.write([UInt8](repeating: 1, count: 1 << 20))
          try volume.announceLock(gracePeriod: .milliseconds(50))
          var seen: Set<String> = []
          let deadline = ContinuousClock.now + patience
          while !seen.contains("locked") {
            try #require(ContinuousClock.now < deadline)
            seen.insert(try state(of: volume))
          }
          #expect(throws: Errno.permissionDenied) { try OpenFile(file, O_RDONLY) }
          #expect(seen.isSubset(of: ["gracePeriod", "locked"]))
          try volume.unlock()
        }
      }
    }
  }
}
