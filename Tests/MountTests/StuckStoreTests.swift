import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// A lock while the backing store does not respond.
  @Suite struct StuckStoreTests {
    private static let options = ["-o", "allow_other,push_timeout=0.5,threads=3"]

    /// What was written and cannot be pushed is lost, and named. None of it can be read, and no key stays.
    @Test func locksAndNamesWhatMayBeLost() throws {
      try Volume.withFaults(Self.options) { volume, faults in
        let dirty = try (0..<3).map { try volume.secret("dirty \($0)", $0) }
        let clean = try volume.secret("clean", 7)
        // Closing a file waits for the store.
        defer { withExtendedLifetime(dirty + [clean]) { faults.disarm() } }
        let reader = try OpenFile(clean.path, O_RDONLY)
        let needles = try keys(of: dirty + [clean], on: volume)
        let lock = try volume.waitingLock()
        for file in dirty { try file.makeDirty() }
        faults.settle()
        faults.arm(.hang, at: 1, of: [.changes, .writes])
        let result = try lock.run()
        #expect(result.ending == .exited(26), "\(result.output)")
        for file in dirty { #expect(result.output.contains("inode \(file.inode) (class A)"), "\(result.output)") }
        #expect(faults.hanging > 0, "nothing hung")
        #expect(try volume.status().state == .locked)
        for file in dirty + [clean] { try file.expectUnreadable() }
        #expect(throws: Errno.permissionDenied) { try reader.read(at: 0, count: 16) }
        try needles.expectNone(in: volume.processID)
        for file in dirty {
          // EACCES if it is reported for pages that came after those that hung.
          let error = try PendingCall { () throws(Errno) in try file.file.synchronize() }.result()
          #expect(error == .ioError || error == .permissionDenied, "\(String(describing: error))")
          #expect(volume.log.contains("inode=\(file.inode)"), "\(volume.log)")
        }

        faults.disarm()
        try volume.unlock()
        #expect(try clean.file.read(at: 0, count: 4096) == Array(clean.contents[..<4096]))
        for file in dirty {
          try file.file.write(file.contents, at: 0)
          try file.file.synchronize()
        }
        try volume.lock()
        try volume.unlock()
        for file in dirty { #expect(try file.path.contents() == file.contents) }
      }
    }

    /// The mount is detached all the same, and what may be lost is said.
    @Test func aLazyUnmountNamesWhatMayBeLost() throws {
      try Volume.withFaults(Self.options) { volume, faults in
        let dirty = try volume.secret("dirty", 1)
        // Closing a file waits for the store.
        defer { withExtendedLifetime(dirty) { faults.disarm() } }
        let unmount = try volume.waitingCommand("unmount", "--lazy")
        try dirty.makeDirty()
        faults.settle()
        faults.arm(.hang, at: 1, of: [.changes, .writes])
        let result = try unmount.run()
        #expect(result.ending == .exited(26), "\(result.output)")
        #expect(result.output.contains("inode \(dirty.inode) (class A)"), "\(result.output)")
        #expect(!volume.isMounted)
        let error = try PendingCall { () throws(Errno) in _ = try dirty.file.read(at: 0, count: 16) }.result()
        #expect(error == .permissionDenied)
      }
    }

    /// All workers hang, with writers, readers and mappings: each of them is answered, and so are later callers.
    @Test func everyoneIsAnswered() throws {
      try Volume.withFaults(Self.options) { volume, faults in
        let files = try (0..<8).map { try volume.secret("file \($0)", $0, count: 256 * 1024) }
        // Closing a file, or synchronising it with nothing left to report, waits until the store has taken its times.
        let readers = Monitor(.test, [OpenFile]())
        defer { withExtendedLifetime((files, readers)) { faults.disarm() } }
        for file in files { try file.makeDirty() }
        // The kernel already knows the directory, so it sends no request.
        _ = try volume.mountPoint.status()
        faults.settle()
        faults.arm(.hang, at: 1, of: [.changes, .writes, .reads])
        var calls: [PendingCall] = []
        for (index, file) in files.enumerated() {
          calls.append(
            PendingCall { () throws(Errno) in
              if index.isMultiple(of: 2) { try file.file.synchronize() } else { try file.mapping.synchronize() }
            })
          calls.append(
            PendingCall { () throws(Errno) in
              let reader = try OpenFile(file.path, O_RDONLY | OpenFile.direct)
              readers.update { $0.append(reader) }
              _ = try reader.read(at: 8192, count: 4096)
            })
          calls.append(PendingCall { () throws(Errno) in try file.path.truncate(to: 100) })
        }
        usleep(100_000)
        let lock = PendingCall { () throws(Errno) in if (try? volume.lock()) != nil { throw .fileExists } }
        let second = PendingCall { () throws(Errno) in if (try? volume.lock()) != nil { throw .fileExists } }
        #expect(try volume.status().mountPoint == volume.mountPoint.description)
        #expect(try lock.result(seconds: 20) == nil, "it told of nothing lost")
        #expect(try second.result(seconds: 20) == nil, "it told of nothing lost")
        for call in calls {
          let error = try call.result()
          #expect(error == .ioError || error == .permissionDenied, "\(String(describing: error))")
        }
        for file in files { try file.expectUnreadable() }
        faults.disarm()
        try volume.unlock()
        for file in files { try file.file.write(file.contents, at: 0) }
        try volume.lock()
        try volume.unlock()
        for file in files { #expect(try Array(file.path.contents().prefix(1000)) == Array(file.contents[..<1000])) }
      }
    }

    /// All workers hang for other requests: what can be refused without the store is refused; the rest continues when
    /// the store does.
    @Test(arguments: [1, 3]) func lockedFilesAreRefusedAtOnce(_ threads: Int) throws {
      try Volume.withFaults(["-o", "allow_other,threads=\(threads)"]) { volume, faults in
        let closed = volume.path("closed")
        try closed.write("contents")
        try closed.setProtectionClass(.complete)
        let open = try volume.secret("open", 1)
        defer { withExtendedLifetime(open) { faults.disarm() } }
        let names = (0..<6).map { volume.path("directory \($0)") }
        for name in names { try name.makeDirectory() }
        try volume.lock()
        for directory in [volume.mountPoint] + names { _ = try directory.status() }
        faults.settle()
        faults.arm(.hang, at: 1, of: [.changes, .reads])
        let others = names.map { name in PendingCall { () throws(Errno) in try name.appending("new").makeDirectory() } }
        while faults.hanging < threads { usleep(1000) }
        try open.expectUnreadable()
        for flags in [O_RDONLY, O_RDWR, O_WRONLY | O_TRUNC] {
          #expect(try PendingCall { () throws(Errno) in _ = try OpenFile(closed, flags) }.result() == .permissionDenied)
        }
        let isAnyDone = others.contains { !$0.isPending }
        #expect(!isAnyDone)
        faults.disarm()
        for call in others { #expect(try call.result() == nil) }
        for name in names { #expect(name.appending("new").exists) }
      }
    }

    /// If another mount may have changed them, a lock reads the records of open files. A file whose record does not
    /// arrive in time is closed to everyone until it does.
    @Test func recordsAreNotWaitedForInASharedStore() throws {
      try Volume.withFaults(["-o", "allow_other,shared,push_timeout=0.5,threads=3"]) { volume, faults in
        let secret = try volume.secret("secret", 1)
        let other = try OpenFile(volume.path("other"), O_RDWR | O_CREAT)
        defer { withExtendedLifetime((secret, other)) { faults.disarm() } }
        try other.write(Array("of class C".utf8), at: 0)
        let needles = try keys(of: [secret], on: volume)
        faults.settle()
        faults.arm(.hang, at: 1, of: [.changes, .writes, .reads])
        let lock = PendingCall { () throws(Errno) in do { try volume.lock() } catch { throw .fileExists } }
        #expect(try lock.result(seconds: 20) == nil)
        #expect(faults.hanging > 0, "nothing hung")
        #expect(try volume.status().state == .locked)
        for (name, file) in [("secret", secret.file), ("other", other)] {
          let error = try PendingCall { () throws(Errno) in _ = try file.read(at: 0, count: 10) }.result()
          #expect(error == .ioError || error == .permissionDenied, "\(name): \(String(describing: error))")
        }
        #expect(try secret.mapping.residentPages() == 0)
        try needles.expectNone(in: volume.processID)

        faults.disarm()
        #expect(try volume.path("other").contents() == Array("of class C".utf8))
        #expect(throws: Errno.permissionDenied) { try OpenFile(secret.path, O_RDONLY) }
        try volume.unlock()
        #expect(try secret.path.contents() == secret.contents)
        #expect(try secret.file.read(at: 0, count: 4096) == Array(secret.contents[..<4096]))
      }
    }

    /// A rekey that hangs holds the contents locks of its files. A lock wipes their keys nevertheless.
    @Test func aRekeyThatHangsKeepsNoKey() throws {
      try Volume.withFaults(Self.options) { volume, faults in
        let path = volume.path("raised")
        let contents = pattern(5, count: 256 * 1024)
        let file = try OpenFile(path, O_RDWR | O_CREAT)
        defer { withExtendedLifetime(file) { faults.disarm() } }
        try file.write(contents, at: 0)
        try file.synchronize()
        faults.settle()
        faults.arm(.hang, at: 1, of: [.writes])
        let raise = PendingCall { () throws(Errno) in try path.setProtectionClass(.complete) }
        #expect(try raise.result() == nil)
        let end = ContinuousClock.now + .seconds(20)
        while faults.hanging == 0, .now < end { usleep(1000) }
        try #require(faults.hanging > 0, "nothing hung")
        let keys = try StoreKeys(of: volume)
        var needles = Needles()
        needles.add("the key of class A", keys.classKeys[.complete]!)
        needles.add("the file's key", try keys.fileKeys(of: path, on: volume))
        let lock = PendingCall { () throws(Errno) in do { try volume.lock() } catch { throw .fileExists } }
        #expect(try lock.result(seconds: 20) == nil)
        #expect(faults.hanging > 0, "it hung no more")
        #expect(try volume.status().state == .locked)
        let error = try PendingCall { () throws(Errno) in _ = try file.read(at: 0, count: 16) }.result()
        #expect(error == .permissionDenied)
        try needles.expectNone(in: volume.processID)

        faults.disarm()
        try volume.unlock()
        #expect(try path.contents() == contents)
      }
    }

    /// A rotation that hangs keeps neither the key of the keybag nor a lock waiting. The next one completes it.
    @Test func aRotationThatHangsKeepsNoKey() throws {
      try Volume.withFaults(Self.options) { volume, faults in
        let tree = try RotatedTree(of: .complete, on: volume, count: 4)
        let keys = try StoreKeys(of: volume)
        var needles = Needles()
        needles.add("the key of class A", keys.classKeys[.complete]!)
        needles.add("the keybag key", keys.keybagKey)
        // When the new records are made durable.
        faults.arm(.hang, at: 1, of: .synchronization)
        defer { faults.disarm() }
        let rotation = PendingCall { () throws(Errno) in
          if volume.rotateThroughSocket(.complete)?.code == .rotationInterrupted { throw .interrupted }
        }
        let end = ContinuousClock.now + .seconds(20)
        while faults.hanging == 0, .now < end { usleep(1000) }
        try #require(faults.hanging > 0, "nothing hung")
        var key = Needles()
        key.add("the keybag key", keys.keybagKey)
        #expect(try key.find(in: volume.processID).count > 0)
        let lock = PendingCall { () throws(Errno) in do { try volume.lock() } catch { throw .fileExists } }
        #expect(try lock.result(seconds: 20) == nil)
        #expect(faults.hanging > 0, "it hung no more")
        #expect(try volume.status().state == .locked)
        try needles.expectNone(in: volume.processID)

        faults.disarm()
        #expect(try rotation.result(seconds: 20) == .interrupted)
        try volume.unlock(recoveryKey: volume.recoveryKey)
        #expect(try volume.rotateByRecoveryKey(.complete).succeeded)
        #expect(try volume.keyIDs(of: .complete).count == 1)
        try tree.expectContents()
      }
    }

    /// What the store fails while the lock pushes it is lost as well, and named with the reason. The next lock, of a
    /// store that has recovered, has nothing to say.
    @Test(arguments: [Errno.noSpace, .ioError, .permissionDenied])
    func namesWhatTheStoreFailed(error: Errno) throws {
      try Volume.withFaults(Self.options) { volume, faults in
        let file = try volume.secret("file", 1)
        let clean = try volume.secret("clean", 7)
        defer { withExtendedLifetime([file, clean]) { faults.disarm() } }
        let lock = try volume.waitingLock()
        try file.makeDirty()
        faults.settle()
        faults.arm(.failOn(error), at: 1, of: [.writes])
        let result = try lock.run()
        #expect(result.ending == .exited(26), "\(result.output)")
        #expect(result.output.contains("(\(error))"), "\(result.output)")
        #expect(result.output.contains("inode \(file.inode) (class A)"), "\(result.output)")
        #expect(!result.output.contains("inode \(clean.inode) "), "\(result.output)")
        #expect(!result.output.contains("does not answer"), "\(result.output)")
        #expect(volume.log.contains("inode=\(file.inode)"), "\(volume.log)")
        try file.expectUnreadable()

        faults.disarm()
        try volume.unlock()
        #expect(try file.path.contents() == file.contents)
        try file.makeDirty()
        try volume.lock()
        try volume.unlock()
        #expect(try file.path.contents() != file.contents)
      }
    }

    /// A store that is slow but completes one write after the other loses nothing, however long that takes.
    @Test func aSlowStoreIsWaitedFor() throws {
      try Volume.withFaults(Self.options) { volume, faults in
        let file = try volume.secret("file", 1, count: 10 * 4096)
        defer { withExtendedLifetime(file) { faults.disarm() } }
        try file.makeDirty()
        faults.settle()
        faults.arm(.slow, at: 1, of: [.writes])
        let start = ContinuousClock.now
        try volume.lock()
        #expect(ContinuousClock.now - start > .seconds(1), "it was not slow")
        faults.disarm()
        try file.expectUnreadable()
        try volume.unlock()
        #expect(try file.path.contents() == pattern(999_999, count: 10 * 4096))
      }
    }

    private func keys(of files: [SecretFile], on volume: Volume) throws -> Needles {
      let keys = try StoreKeys(of: volume)
      var needles = Needles()
      needles.add("the key of class A", keys.classKeys[.complete]!)
      for file in files { needles.add("a file's key", try keys.fileKeys(of: file.path, on: volume)) }
      return needles
    }
  }
}
