import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Where a state of a mount of this user's can be.
  fileprivate static let publishingDirectories = ["/run", "/dev/shm"].filter { path in
    let kind = try? Program.run(["stat", "--file-system", "--format=%T", path])
    return geteuid() == 0 && kind?.output.hasPrefix("tmpfs") == true
  }.map { $0 == "/run" ? "/run/protectfs" : "/dev/shm/protectfs-0" }

  /// The states of mounts are read without asking a daemon.
  @Suite(.enabled(if: !publishingDirectories.isEmpty, "there is no tmpfs where states are published"))
  struct PublishedStateTests {
    private func published(_ volume: borrowing Volume) throws -> LockState? {
      let mount = try #require(try MountedFileSystem.at(volume.mountPoint.description))
      return PublishedStates.states(of: [mount])[mount.device]
    }

    private func file(of volume: borrowing Volume) throws -> PathName {
      let mount = try #require(try MountedFileSystem.at(volume.mountPoint.description))
      return PathName(try #require(MountTests.publishingDirectories.first)).appending(
        PublishedStates.name(ofDevice: mount.device))
    }

    @Test func followsTheState() throws {
      try Volume.with(["-o", "inactive=1"], unlocked: false) { volume in
        let file = try file(of: volume)
        #expect(try published(volume) == .beforeFirstUnlock)
        try volume.unlock()
        #expect(try published(volume) == .unlocked)
        try volume.announceLock(gracePeriod: .seconds(60))
        #expect(try published(volume) == .gracePeriod)
        try volume.unlock()
        #expect(try published(volume) == .unlocked)
        try volume.lock()
        #expect([.locked, .inactive].contains(try published(volume)))
        try volume.wait(for: .inactive)
        #expect(try published(volume) == .inactive)
        #expect(try file.status().mode & 0o777 == 0o400)
        try volume.unmount()
        #expect(!file.exists)
      }
    }

    /// The state of a daemon that was stopped is not believed, and that of one that was killed is nobody's, until the
    /// next one removes it.
    @Test func onlyOfADaemonThatRuns() throws {
      try Volume.with { volume in
        #expect(try published(volume) == .unlocked)
        #expect(calls_kill(volume.processID, SIGSTOP) == 0)
        #expect(try eventually { try published(volume) == nil })
        #expect(calls_kill(volume.processID, SIGCONT) == 0)
        #expect(try eventually { try published(volume) == .unlocked })
        let file = try file(of: volume)
        volume.kill()
        #expect(try published(volume) == nil)
        try Volume.with { other in
          #expect(try published(other) == .unlocked)
          let isReplaced = try self.file(of: other) == file
          #expect(isReplaced || !file.exists)
        }
      }
    }

    /// Whatever else has the name is not waited for, and the daemon is asked.
    @Test(arguments: ["nothing", "pipe", "link", "text", "directory"])
    func nothingElseIsBelieved(_ other: String) throws {
      try Volume.with { volume in
        let file = try file(of: volume)
        try file.unlink()
        switch other {
        case "pipe": #expect(unsafe mkfifo(file.description, 0o600) == 0)
        case "link": try file.makeSymbolicLink(to: "/proc/self/status")
        case "text": try file.write("b 1\n")
        case "directory": try file.makeDirectory()
        default: break
        }
        defer { if other == "directory" { try? file.removeDirectory() } else { try? file.unlink() } }
        #expect(try published(volume) == nil)
        #expect(try LockState(ofMountAt: volume.mountPoint.description) == .unlocked)
      }
    }
  }
}
