import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// A store on a file system that serves several hosts, of which one is not heard of for long.
  @Suite struct LostStoreTests {
    /// Calls `body` with a mount that writes and is unlocked, the disk that the hosts share, the mount's host and
    /// another.
    private func onTwoHosts(
      _ options: String = "allow_other", _ body: (Volume, PathName, NetworkDirectory, PathName) throws -> Void
    ) throws {
      try Volume.onHosts(others: 1) { volume, host, others in
        try volume.mount(["-o", options])
        try volume.unlock()
        try volume.path("file").write("ours")
        try body(volume, volume.directory.appending("disk"), host, others[0])
      }
    }

    /// Whether another process has the claim.
    private func isClaimed(_ disk: PathName) throws -> Bool {
      let file = try Descriptor.open(disk.appending(".protectfs/writer"), [.readWrite])
      return failure { () throws(Errno) in try file.lockBytes(isShared: false) } == .wouldBlock
    }

    /// Takes the claim from a mount whose daemon does not run meanwhile, as that of a host that sleeps.
    private func takeClaim(_ volume: Volume, _ host: NetworkDirectory, _ disk: PathName) throws {
      #expect(calls_kill(volume.processID, SIGSTOP) == 0)
      // It may have asked for the lock before it was stopped.
      try #require(
        eventually {
          host.loseLocks()
          return try !isClaimed(disk)
        })
    }

    /// A standby on the other host, which waits for the claim.
    private func startStandby(_ volume: Volume, _ other: PathName, at mountPoint: PathName) throws -> Program {
      try mountPoint.makeDirectory()
      let standby = try Program(
        [
          Command.path, "mount", other.description, mountPoint.description, "--foreground", "-o", "standby",
          "--device-key", volume.deviceKey.description,
        ], output: volume.directory.appending("log.standby"))
      try #require(eventually { standby.output.contains("standing by") }, "\(standby.output)")
      return standby
    }

    /// It is in the middle of its work, and neither asks nor changes anything more.
    @Test func aCommandThatHasLostTheStoreEnds() throws {
      let environment = { (directory: PathName) in Faults.environment(directory.appending("faults")) }
      try Volume.onHosts(others: 0, environment: environment) { volume, _, _ in
        try volume.mount()
        try volume.unlock()
        try volume.path("file").write("x")
        try volume.unmount()
        let faults = try Faults(of: volume)
        defer { faults.disarm() }
        faults.arm(.hang, at: 1, of: .records)
        let command = try Program(
          [Command.path, "fsck", "--repair", volume.backing.description, "--device-key", volume.deviceKey.description],
          environment: faults.environment, output: volume.directory.appending("log.fsck"))
        try #require(eventually { faults.hit != nil })
        let file = try Descriptor.open(volume.directory.appending("disk/.protectfs/writer"), [.readWrite])
        try file.write([UInt8](repeating: 1, count: 16))
        #expect(command.wait() == .exited(30), "\(command.output)")
        #expect(command.output.contains("the store is lost, and nothing more is changed: another host or process"))
      }
    }

    /// Another store is in use, which is said while the file system of this one answers nothing.
    @Test func othersAreNotWaitedFor() throws {
      try onTwoHosts { _, _, host, _ in
        host.setSilent(true)
        defer { host.setSilent(false) }
        try Volume.onHosts(others: 1) { volume, _, others in
          try volume.mount()
          let mountPoint = volume.directory.appending("second")
          try mountPoint.makeDirectory()
          let second = try Program(
            [
              Command.path, "mount", others[0].description, mountPoint.description, "--foreground", "--device-key",
              volume.deviceKey.description,
            ], output: volume.directory.appending("log.second"))
          #expect(second.wait() == .exited(7), "\(second.output)")
          #expect(second.output.contains("another host or process writes the store"), "\(second.output)")
        }
      }
    }

    private func expectLoss(_ volume: Volume, reason: String) throws {
      calls_kill(volume.processID, SIGCONT)
      #expect(eventually { volume.log.contains("the store is lost") })
      #expect(volume.log.contains(reason), "\(volume.log)")
      #expect(volume.waitForDaemon() == .exited(30))
      try volume.waitForEndOfConnection()
      try volume.mountPoint.unmount(isLazy: true)
    }

    /// Where the file system does not keep a client out that it has given up, once somebody says that its host is off.
    @Test func aStandbyTakesOver() throws {
      try onTwoHosts { volume, _, host, other in
        let mountPoint = volume.directory.appending("standby")
        let standby = try startStandby(volume, other, at: mountPoint)
        defer {
          try? mountPoint.unmount(isLazy: true)
          standby.send(SIGTERM)
          #expect(standby.wait() == .exited(0), "\(standby.output)")
        }
        #expect(calls_kill(volume.processID, SIGSTOP) == 0)
        // Its request is there when the daemon goes on.
        let late = try Program(
          ["mkdir", volume.path("late").description], output: volume.directory.appending("log.late"))
        defer { #expect(late.wait() == .exited(1), "\(late.output)") }
        try #require(
          eventually {
            host.loseLocks()
            return standby.output.contains("has not given it up")
          }, "\(standby.output)")
        let taken = try Command.run(["takeover", "--old-host-is-off", other.description])
        #expect(taken.succeeded && taken.output.contains("The store can be mounted"), "\(taken.output)")
        var connection: DaemonConnection?
        try #require(
          eventually {
            connection = try? DaemonConnection(mountPoint: mountPoint.description)
            return connection != nil
          }, "\(standby.output)")
        try connection?.unlock(recoveryKey: volume.recoveryKey)
        #expect(try mountPoint.appending("file").contents() == Array("ours".utf8))
        try mountPoint.appending("file").write("theirs")
        try expectLoss(volume, reason: "another host or process has written the store since")
        #expect(try mountPoint.appending("file").contents() == Array("theirs".utf8))
        #expect(!mountPoint.appending("late").exists, "a host that was stopped asks first")
      }
    }

    /// The other may be gone by the time that the first is heard of again.
    @Test func whoWasThereMeanwhileIsNoticed() throws {
      try onTwoHosts { volume, disk, host, other in
        try takeClaim(volume, host, disk)
        let second = try SecondMount(of: volume, "second", backing: other, options: "allow_other")
        try second.unlock()
        try second.end()
        try expectLoss(volume, reason: "another host or process has written the store since")
      }
    }

    /// A file system may keep the locks of a host that is off for a day.
    @Test func aHostThatIsOff() throws {
      try onTwoHosts { volume, _, _, other in
        #expect(try Command.run(["takeover", "--old-host-is-off", volume.backing.description]).ending == .exited(7))
        #expect(calls_kill(volume.processID, SIGSTOP) == 0)
        let unsure = try Command.run(["takeover", other.description])
        #expect(unsure.ending == .exited(64) && unsure.output.contains("--old-host-is-off"), "\(unsure.output)")
        for said in ["The store can be mounted", "Nobody writes the store"] {
          let taken = try Command.run(["takeover", "--old-host-is-off", other.description])
          #expect(taken.succeeded && taken.output.contains(said), "\(taken.output)")
        }
        do {
          let second = try SecondMount(of: volume, "second", backing: other, options: "allow_other")
          try second.unlock()
          #expect(try second.path("file").contents() == Array("ours".utf8))
          try second.end()
        }
        try expectLoss(volume, reason: "another host or process has written the store since")
      }
    }

    @Test func aServerThatRefusesTheHost() throws {
      try onTwoHosts { volume, _, host, _ in
        host.loseLocks(isFenced: true)
        try expectLoss(volume, reason: "does not let this host write any more")
      }
    }

    /// A lock that nobody else has had is taken again.
    @Test func aClaimThatNobodyTook() throws {
      try onTwoHosts { volume, disk, host, _ in
        try takeClaim(volume, host, disk)
        calls_kill(volume.processID, SIGCONT)
        #expect(try eventually { try isClaimed(disk) })
        try volume.path("more").write("still ours")
        try volume.unmount()
        try volume.mount()
        try volume.unlock()
        #expect(try volume.path("more").contents() == Array("still ours".utf8))
      }
    }

    @Test func aStandbyThatIsToldToEnd() throws {
      try onTwoHosts { volume, _, _, other in
        let mountPoint = volume.directory.appending("standby")
        let standby = try startStandby(volume, other, at: mountPoint)
        standby.send(SIGTERM)
        #expect(standby.wait() == .exited(0), "\(standby.output)")
        let detached = try Command.run(["mount", other.description, mountPoint.description, "-o", "standby"])
        #expect(detached.ending == .exited(64) && detached.output.contains("--foreground"), "\(detached.output)")
      }
    }

    /// It was cut off, its daemon has ended, and it is started again before anything is there again.
    @Test func aStandbyWaitsForItsFileSystem() throws {
      try onTwoHosts { volume, disk, _, _ in
        let path = volume.directory.appending("third")
        let third = try NetworkDirectory(disk, at: path)
        third.kill()
        defer { third.end() }
        let standby = try startStandby(volume, path, at: volume.directory.appending("standby"))
        #expect(standby.output.contains("Transport endpoint is not connected"), "\(standby.output)")
        try path.unmount(isLazy: true)
        try #require(eventually { standby.output.contains("No such file or directory") }, "\(standby.output)")
        try path.removeDirectory()
        let again = try NetworkDirectory(disk, at: path)
        defer { again.end() }
        try #require(eventually { standby.output.contains("another host or process writes") }, "\(standby.output)")
        standby.send(SIGTERM)
        #expect(standby.wait() == .exited(0), "\(standby.output)")
      }
    }

    @Test func aHostThatIsCutOffLocks() throws {
      try onTwoHosts("allow_other,isolation=3,push_timeout=0.1") { volume, _, host, _ in
        host.setSilent(true)
        #expect(eventually { (try? volume.status().state) == .beforeFirstUnlock }, "\(volume.log)")
        host.setSilent(false)
        try volume.unlock()
        #expect(try volume.path("file").contents() == Array("ours".utf8))
      }
    }

    @Test func anErasureReachesOtherHosts() throws {
      try onTwoHosts { volume, _, _, other in
        let reader = try SecondMount(of: volume, "reader", backing: other, options: "ro")
        try reader.unlock()
        let erased = try Command.run([
          "erase", "--yes", volume.mountPoint.description,
        ])
        try #require(erased.succeeded, "\(erased.output)")
        #expect(
          eventually {
            var connection = try? DaemonConnection(mountPoint: reader.mountPoint.description)
            return (try? connection?.status().erased) != nil
          })
        #expect(throws: Errno(rawValue: EKEYREVOKED)) { try reader.path("file").contents() }
      }
    }
  }
}
