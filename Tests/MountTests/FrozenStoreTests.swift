import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// A lock while the file system below is frozen: its calls wait in the kernel, where signals do not reach them.
  @Suite struct FrozenStoreTests {
    @Test func locksAndNamesWhatMayBeLost() throws {
      try LoopDisk.with { disk in
        try Volume.store(prepare: { try disk.attach($0.appending("backing")) }) { volume in
          defer { try? volume.backing.unmount(isLazy: true) }
          try volume.mount(["-o", "allow_other,push_timeout=1"])
          try volume.unlock()
          try checkFrozen(volume, disk)
          // A thread that has reported the end of its call may hold a file a moment longer.
          try volume.unmountOnceIdle()
        }
      }
    }

    /// The daemon is killed, but does not end: a call of one of its threads waits for the disk.
    @Test func aKilledDaemonLeavesNone() throws {
      try LoopDisk.with { disk in
        try Volume.store(prepare: { try disk.attach($0.appending("backing")) }) { volume in
          defer { try? volume.backing.unmount(isLazy: true) }
          try volume.mount()
          try volume.unlock()
          let files = try (0..<2).map { try volume.secret("file \($0)", $0) }
          let beside = try Unmounter(of: volume.processID)
          let daemon = try ProcessDescriptor(volume.processID)
          let thaw = try disk.freeze(in: volume.directory)
          defer { withExtendedLifetime(files) { thaw() } }
          try files[1].makeDirty()
          let sync = PendingCall { () throws(Errno) in try files[1].file.synchronize() }
          try Self.waitUntilAThreadCannotEnd(of: volume.processID)
          #expect(try files[0].mapping.residentPages() > 0)
          #expect(calls_kill(volume.processID, SIGKILL) == 0)
          #expect(beside.ends())
          for file in files { #expect(try file.mapping.residentPages() == 0) }
          #expect(try sync.result() != nil)
          let read = PendingCall { () throws(Errno) in _ = try files[0].file.read(at: 0, count: 1) }
          #expect(try read.result() == .socketNotConnected)
          let hasEnded = daemon.waitForEnd(atMost: .zero)
          #expect(!hasEnded, "nothing kept it")
          let mount = try #require(try MountedFileSystem.at(volume.mountPoint.description))
          #expect(PublishedStates.states(of: [mount]).isEmpty)
          thaw()
          #expect(volume.waitForDaemon() == .killed(SIGKILL))
        }
      }
    }

    private static func waitUntilAThreadCannotEnd(of process: CInt) throws {
      let tasks = PathName("/proc/\(process)/task")
      let deadline = ContinuousClock.now + .seconds(20)
      while try !tasks.names().contains(where: { Process.state(of: "\(process)/task/\($0)") == "D" }) {
        try #require(ContinuousClock.now < deadline)
        usleep(1000)
      }
    }

    private func checkFrozen(_ volume: Volume, _ disk: LoopDisk) throws {
      let files = try (0..<8).map { try volume.secret("file \($0)", $0) }
      let clean = try volume.secret("clean", 100)
      let kept = volume.path("kept")
      try kept.write("of class C")
      let lock = try volume.waitingLock()
      // The kernel already knows the directory, so it sends no request.
      _ = try volume.mountPoint.status()
      let thaw = try disk.freeze(in: volume.directory)
      defer { withExtendedLifetime(files + [clean]) { thaw() } }
      for file in files { try file.makeDirty() }
      let syncs = files.map { file in PendingCall { () throws(Errno) in try file.file.synchronize() } }
      let other = PendingCall { () throws(Errno) in
        let file = try OpenFile(kept, O_WRONLY)
        try file.write(Array("of class C, longer".utf8), at: 0)
        try file.synchronize()
      }
      usleep(50_000)
      let result = try lock.run()
      #expect(result.ending == .exited(26), "\(result.output)")
      for file in files { #expect(result.output.contains("inode \(file.inode) (class A)"), "\(result.output)") }
      for file in files + [clean] { try file.expectUnreadable() }
      for call in syncs {
        let error = try call.result()
        #expect(error == .ioError || error == .permissionDenied, "\(String(describing: error))")
      }
      #expect(other.isPending, "what is not locked waits for the store")
      #expect(try volume.status().state == .locked)
      thaw()
      #expect(try other.result() == nil)
      try volume.unlock()
      #expect(try kept.contents() == Array("of class C, longer".utf8))
      #expect(try clean.path.contents() == clean.contents)
      for file in files {
        try file.file.write(file.contents, at: 0)
        try file.file.synchronize()
        #expect(try file.path.contents() == file.contents)
      }
    }
  }
}

extension LoopDisk {
  /// Freezes it, and returns a function that thaws it. A separate process also thaws it half a minute later, in case
  /// that is never called.
  ///
  /// This process starts none to do so: a new process closes the files that it inherits, which may wait for the store.
  func freeze(in directory: PathName) throws -> () -> Void {
    let watchdog = try Program(
      ["sh", "-c", "cd '\(mounted)' && { sleep 120 & trap 'kill $!; exit' TERM; wait; fsfreeze -u .; }"],
      output: directory.appending("watchdog"))
    let root = try OpenFile(mounted, O_RDONLY)
    let thaw = {
      _ = calls_freeze(root.descriptor, 0)
      watchdog.send(SIGTERM)
      _ = watchdog.wait(seconds: 5)
    }
    do {
      try check(calls_freeze(root.descriptor, 1))
    } catch {
      thaw()
      throw error
    }
    return thaw
  }
}
