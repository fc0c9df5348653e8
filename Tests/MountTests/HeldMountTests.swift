import CSystemCalls
import Glibc
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// A file system that is still held when its mount point is removed. It is locked at once, however the mount point
  /// was removed, and can still be reached.
  @Suite struct HeldMountTests {
    @Test func unmountTellsWhoHoldsIt() throws {
      try Volume.with { volume in
        try Self.prepare(volume)
        let namespace = try Namespace(holding: volume)
        defer { namespace.end() }
        let result = try Command.run(["unmount", volume.mountPoint.description])
        #expect(result.ending == .exited(24), "\(result.output)")
        #expect(result.output.contains("everything is locked"))
        #expect(result.output.contains("process \(namespace.process)"), "\(result.output)")
        #expect(!volume.isMounted)
        for fileClass in Self.classes {
          #expect(throws: Errno.permissionDenied) { try namespace.file(fileClass).contents() }
        }
        #expect(try namespace.file(.none).contents() == Array("none".utf8))

        // It is reached by its backing directory and by its former mount point.
        let status = try Command.run(["status", volume.backing.description])
        #expect(status.succeeded && status.output.contains("before first unlock"), "\(status.output)")
        #expect(status.output.contains("not here any more"), "\(status.output)")
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        for path in [volume.backing, volume.mountPoint] {
          #expect(try Command.run(["unlock", path.description] + passcode).succeeded)
          #expect(try namespace.file(.complete).contents() == Array("complete".utf8))
          #expect(try Command.run(["lock", "--now", path.description]).succeeded)
          #expect(throws: Errno.permissionDenied) { try namespace.file(.complete).contents() }
        }
        namespace.end()
        #expect(volume.waitForDaemon() == .exited(0))
        #expect(try Command.run(["lock", volume.backing.description]).ending == .exited(6))
      }
    }

    /// The command waited for a daemon that has ended since. The next mount may have the numbers of its mount.
    @Test(arguments: [true, false]) func aNewMountStays(ofTheSameStore isSame: Bool) throws {
      try Volume.with { volume in
        try Volume.store { other in
          let command = try volume.waitingUnmount()
          #expect(calls_kill(command.identifier, SIGSTOP) == 0)
          try volume.mountPoint.unmount(isLazy: false)
          #expect(calls_kill(volume.processID, SIGCONT) == 0)
          #expect(volume.waitForDaemon() == .exited(0))
          let next = try (isSame ? volume : other).start(at: volume.mountPoint)
          defer {
            try? volume.mountPoint.unmount(isLazy: true)
            _ = next.wait()
          }
          while !volume.isMounted && next.poll() == nil { usleep(2000) }
          #expect(calls_kill(command.identifier, SIGCONT) == 0)
          #expect(command.wait() == .exited(0), "\(command.output)")
          #expect(volume.isMounted)
        }
      }
    }

    /// Something else is mounted there since, and the file system lives on.
    @Test func whatHasComeInItsPlaceStays() throws {
      try Volume.with { volume in
        let namespace = try Namespace(holding: volume)
        defer { namespace.end() }
        let command = try volume.waitingUnmount()
        try volume.mountPoint.unmount(isLazy: false)
        try #require(try Program.run(["mount", "-t", "tmpfs", "none", volume.mountPoint.description]).succeeded)
        defer { try? volume.mountPoint.unmount(isLazy: true) }
        try volume.path("its own").write("")
        #expect(calls_kill(volume.processID, SIGCONT) == 0)
        #expect(command.wait() == .exited(24), "\(command.output)")
        #expect(volume.path("its own").exists)
      }
    }

    /// A file system in use is neither unmounted nor locked.
    /// A directory above the mount point, which may be a user's, leads to another mount by now.
    @Test func whatThePathLeadsToStays() throws {
      try Volume.with { volume in
        try Volume.with { other in
          let mount = try #require(try MountedFileSystem.at(volume.mountPoint.description))
          let aside = PathName("\(volume.directory).aside")
          try volume.directory.rename(to: aside)
          try volume.directory.makeSymbolicLink(to: other.directory)
          #expect(throws: Errno.noSuchFileOrDirectory) { try Unmount.run(mount, isLazy: true) }
          try volume.directory.unlink()
          try aside.rename(to: volume.directory)
          #expect(volume.isMounted && other.isMounted)
        }
      }
    }

    @Test func aBusyMountStaysAsItIs() throws {
      try Volume.with { volume in
        try Self.prepare(volume)
        let file = try OpenFile(volume.path("complete"), O_RDONLY)
        let result = try Command.run(["unmount", volume.mountPoint.description])
        #expect(result.ending == .exited(19), "\(result.output)")
        #expect(try volume.status().state == .unlocked)
        #expect(try file.read(at: 0, count: 8) == Array("complete".utf8))
      }
    }

    @Test func aLazyUnmountLocks() throws {
      try Volume.with { volume in
        try Self.prepare(volume)
        let files = try Self.classes.map { try OpenFile(volume.path($0.name), O_RDWR) }
        let mapping = try Mapping(files[0], count: 8)
        try mapping.write(Array("COMPLETE".utf8), at: 0)
        #expect(try Command.run(["unmount", "--lazy", volume.mountPoint.description]).succeeded)
        #expect(!volume.isMounted)
        for file in files { #expect(throws: Errno.permissionDenied) { try file.read(at: 0, count: 1) } }
        #expect(throws: Errno.badAddress) { try mapping.read(at: 0, count: 1) }
        #expect(try Command.run(["status", volume.backing.description]).output.contains("before first unlock"))

        // The contents of the mapping have been written.
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        #expect(try Command.run(["unlock", volume.backing.description] + passcode).succeeded)
        #expect(try files[0].read(at: 0, count: 8) == Array("COMPLETE".utf8))
      }
    }

    /// Unmounted lazily by another program than protectfs, in the daemon's own namespace.
    @Test func whatOthersUnmountIsLocked() throws {
      try Volume.with { volume in
        try Self.prepare(volume)
        let files = try Self.classes.map { try OpenFile(volume.path($0.name), O_RDONLY) }
        try volume.mountPoint.unmount(isLazy: true)
        for file in files {
          #expect(
            eventually {
              failure { () throws(Errno) in _ = try file.read(at: 0, count: 1) } == .permissionDenied
            })
        }
      }
    }

    @Test func toldToEndWhileHeld() throws {
      try Volume.with { volume in
        try Self.prepare(volume)
        let file = try OpenFile(volume.path("complete"), O_RDONLY)
        let namespace = try Namespace(holding: volume)
        defer { namespace.end() }
        #expect(calls_kill(volume.processID, SIGTERM) == 0)
        #expect(volume.waitForDaemon() == .exited(0))
        #expect(!volume.isMounted)
        #expect(throws: (any Error).self) { try file.read(at: 0, count: 8) }
      }
    }

    /// A daemon whose parent does not wait for it has ended nevertheless.
    @Test func aDaemonThatNobodyWaitsForHasEnded() throws {
      try Volume.store { volume in
        let child = try Program(["cat", "/dev/null"], output: volume.directory.appending("output"))
        defer { _ = child.wait() }
        let process = try ProcessDescriptor(child.identifier)
        let hasEnded = process.waitForEnd(atMost: .seconds(30))
        #expect(hasEnded)
        #expect(Process.state(of: child.identifier) == "Z")
      }
      func openNobody() throws(Errno) { _ = try ProcessDescriptor(Int32.max - 1) }
      #expect(throws: Errno.noSuchProcess) { try openNobody() }
    }

    private static let classes: [ProtectionClass] = [
      .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .completeWhenUserInactive,
    ]

    /// A file of each class, whose name and content are the name of the class.
    private static func prepare(_ volume: Volume) throws {
      for fileClass in ProtectionClass.allCases {
        try volume.path(fileClass.name).write(fileClass.name)
        try volume.path(fileClass.name).setProtectionClass(fileClass)
      }
    }
  }
}

/// A process in a mount namespace of its own, which holds a mount.
private struct Namespace {
  private let program: Program
  private let root: PathName
  var process: CInt { program.identifier }

  init(holding volume: Volume) throws {
    program = try Program(
      ["unshare", "-m", "--propagation", "private", "sh", "-c", "echo there; exec sleep 300"],
      output: volume.directory.appending("namespace"))
    root = PathName("/proc/\(program.identifier)/root\(volume.mountPoint)")
    eventually { !program.output.isEmpty || program.poll() != nil }
    try #require(program.output == "there\n")
  }

  func file(_ fileClass: ProtectionClass) -> PathName { root.appending(fileClass.name) }

  func end() {
    program.send(SIGKILL)
    _ = program.wait()
  }
}

extension Volume {
  /// The command `unmount`, which waits for the daemon. That was stopped (SIGSTOP).
  fileprivate func waitingUnmount() throws -> Program {
    #expect(calls_kill(processID, SIGSTOP) == 0)
    let command = try Program(
      [Command.path, "unmount", mountPoint.description], output: directory.appending("unmount"))
    while !command.output.contains("is stopped (SIGSTOP)") && command.poll() == nil { usleep(10_000) }
    try #require(command.poll() == nil, "\(command.output)")
    return command
  }
}
