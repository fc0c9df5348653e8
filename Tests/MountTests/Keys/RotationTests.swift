import CSystemCalls
import Glibc
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// A new class key while the store is in use: no file is lost, and the old key opens nothing.
  @Suite struct RotationTests {
    @Test(arguments: ProtectionClass.allCases) func everyFileIsWrappedAnew(_ fileClass: ProtectionClass) throws {
      try Volume.with { volume in
        let tree = try RotatedTree(of: fileClass, on: volume, count: 40)
        var held: OpenFile! = try OpenFile(tree.files[0], O_RDWR)
        var unlinked: OpenFile! = try OpenFile(tree.files[1], O_RDWR)
        try tree.files[1].unlink()
        let old = try volume.record(of: tree.files[2])
        let others = try tree.others.map { try volume.record(of: $0) }

        let result = try volume.rotate(fileClass)
        #expect(result.succeeded, "\(result.output)")
        let keys = try volume.keyIDs(of: fileClass)
        #expect(keys.count == 1 && keys[0] != old.classKeyID)
        for file in tree.files where file != tree.files[1] {
          #expect(try volume.record(of: file).classKeyID == keys[0], "\(file)")
        }
        #expect(try tree.others.map { try volume.record(of: $0) } == others)
        try held.write(pattern(0, count: 100), at: 0)
        try tree.expectContents(but: tree.files[1])
        #expect(try unlinked.read(at: 0, count: 1000) == pattern(1, count: 1000))
        // Keys are fetched again, also for files that were open all the time.
        try volume.lock()
        try volume.unlock()
        #expect(try held.read(at: 0, count: 100) == pattern(0, count: 100))
        #expect(try unlinked.read(at: 0, count: 1000) == pattern(1, count: 1000))
        try volume.path("new").write("new")

        (held, unlinked) = (nil, nil)

        // The old record, put back, opens nothing.
        let backing = try volume.backingFile(of: tree.files[2])
        try volume.unmount()
        try backing.setExtendedAttribute(PathName(FileRecord.attributeName), to: old.bytes)
        try volume.mount()
        try volume.unlock()
        #expect(throws: keyRevoked) { try OpenFile(tree.files[2], O_RDONLY) }
        try tree.expectContents(but: tree.files[1], tree.files[2])
        #expect(try volume.path("new").contents() == Array("new".utf8))
      }
    }

    /// Files are created, moved, linked, given other classes and removed while all keys are wrapped again.
    @Test func nothingIsMissedWhileTheTreeMoves() throws {
      try Volume.with { volume in
        let tree = try RotatedTree(of: .complete, on: volume, count: 400)
        var files = tree.files
        for _ in 0..<3 {
          let old = try volume.keyIDs(of: .complete)
          let movers = TreeMovers(in: tree.root, files)
          let result = try volume.rotate(.complete)
          try movers.stop()
          #expect(result.succeeded, "\(result.output)")
          #expect(try volume.keyIDs(of: .complete).count == 1 && volume.keyIDs(of: .complete) != old)
          try volume.remount()
          try volume.unlock()
          try movers.expectContents()
          files = movers.places
        }
      }
    }

    /// The daemon ends after each call of a rotation: every file opens, and the next rotation continues.
    @Test func killedAnywhereItLosesNothing() throws {
      try Volume.withFaults { volume, faults in
        let tree = try RotatedTree(of: .completeUntilFirstUserAuthentication, on: volume, count: 6)
        for number in Faults.places {
          faults.arm(.end, at: number, of: .changes)
          let error = volume.rotateThroughSocket(.completeUntilFirstUserAuthentication)
          faults.disarm()
          guard let hit = faults.hit else {
            #expect(error == nil)
            break
          }
          try #require(volume.waitForDaemon() == .exited(FAULTS_STATUS))
          try volume.mountPoint.unmount(isLazy: true)
          let notes = try volume.notesOfCheck("after call \(number), \(hit)")
          #expect(notes.isSubset(of: ["keybag-leftover"]), "after call \(number), \(hit): \(notes)")
          try volume.mount()
          try volume.unlock(recoveryKey: volume.recoveryKey)
          try tree.expectContents()
          #expect(try volume.secondCopyOpensNewFiles(in: tree.root), "after call \(number), \(hit)")
        }
        #expect(try volume.keyIDs(of: .completeUntilFirstUserAuthentication).count == 1)
        try tree.expectContents()
      }
    }

    /// Each call of a rotation fails: both keys are kept until it is complete.
    @Test func whatFailsIsGoneOnWith() throws {
      try Volume.withFaults { volume, faults in
        let tree = try RotatedTree(of: .completeUnlessOpen, on: volume, count: 4)
        for number in Faults.places {
          faults.arm(.fail(.ioError), at: number, of: [.changes, .reads])
          let error = volume.rotateThroughSocket(.completeUnlessOpen)
          faults.disarm()
          guard let hit = faults.hit else { break }
          let place = "call \(number), \(hit): \(error?.message ?? "no error")"
          #expect(try volume.secondCopyOpensNewFiles(in: tree.root), "\(place)")
          try volume.lock()
          try volume.unlock(recoveryKey: volume.recoveryKey)
          try tree.expectContents(place)
        }
        #expect(try volume.rotateByRecoveryKey(.completeUnlessOpen).succeeded)
        #expect(try volume.keyIDs(of: .completeUnlessOpen).count == 1)
        try volume.remount()
        try volume.unlock(recoveryKey: volume.recoveryKey)
        try tree.expectContents()
      }
    }

    /// A class key that may not survive a power cut is not used yet. When the keybag is changed again, which makes the
    /// key durable, it is also in memory. Files can be created all the time.
    @Test func aKeyThatWasNotDurableIsUsedLater() throws {
      try Volume.withFaults { volume, faults in
        for number in 1...6 {
          faults.arm(.fail(.ioError), at: number, of: .synchronization)
          let result = try volume.rotateByRecoveryKey(.completeUntilFirstUserAuthentication)
          faults.disarm()
          try volume.path("before \(number)").write("before")
          let key = volume.directory.appending("key \(number)").description
          let added = try Command.run([
            "key", "add", "--new-key-file", key, "--recovery-key-file", volume.recoveryKeyFile(),
            volume.mountPoint.description,
          ])
          #expect(added.succeeded, "\(added.output)")
          let context = "sync \(number): \(result.output)"
          #expect(throws: Never.self, "\(context)") { try volume.path("after \(number)").write("after") }
          #expect(try volume.path("before \(number)").contents() == Array("before".utf8), "\(context)")
        }
      }
    }

    /// A lock ends a rotation, and waits until the keybag key is gone from memory.
    @Test func aLockEndsIt() throws {
      try Volume.with { volume in
        let tree = try RotatedTree(of: .completeUntilFirstUserAuthentication, on: volume, count: 1500)
        let keys = try StoreKeys(of: volume)
        var needles = Needles()
        needles.add("the keybag key", keys.keybagKey)
        needles.add("the key of class A", keys.classKeys[.complete]!)
        let program = try Program(
          volume.rotationWords(.completeUntilFirstUserAuthentication), output: volume.directory.appending("output"))
        while try volume.keyIDs(of: .completeUntilFirstUserAuthentication).count == 1, program.poll() == nil {
          usleep(200)
        }
        try volume.lock()
        let found = try needles.find(in: volume.processID)
        #expect(found.count == 0, "\(found.first ?? "")")
        let ending = program.wait()
        if try volume.keyIDs(of: .completeUntilFirstUserAuthentication).count == 2 {
          #expect(ending == .exited(22), "\(program.output)")
        }
        try volume.unlock()
        try tree.expectContents()
        #expect(try volume.rotate(.completeUntilFirstUserAuthentication).succeeded)
        #expect(try volume.keyIDs(of: .completeUntilFirstUserAuthentication).count == 1)
        try tree.expectContents()
      }
    }

    /// While the end of a rotation hangs for a moment, a lock waits for it, and an unlock waits for the lock. The
    /// rotation gives way to the lock.
    @Test func aLockAndAnUnlockAtItsEnd() throws {
      try Volume.withFaults { volume, faults in
        let tree = try RotatedTree(of: .completeUntilFirstUserAuthentication, on: volume, count: 4)
        let key = try volume.recoveryKeyFile()
        func start(_ name: String, _ arguments: [String]) throws -> Program {
          try Program(
            [Command.path] + arguments + [volume.mountPoint.description], output: volume.directory.appending(name))
        }
        faults.arm(.hang, at: 1, of: .synchronization)
        let rotation = try start("rotate", ["rotate", "--class", "C", "--recovery-key-file", key])
        while faults.hit == nil && rotation.poll() == nil { usleep(1000) }
        let lock = try start("lock", ["lock", "--now"])
        while try volume.status().state == .unlocked, lock.poll() == nil { usleep(1000) }
        let unlock = try start("unlock", ["unlock", "--recovery-key-file", key])
        defer { for program in [rotation, lock, unlock] { program.send(SIGKILL) } }
        usleep(200_000)
        faults.disarm()
        #expect(lock.wait() == .exited(0), "\(lock.output)")
        #expect(unlock.wait() == .exited(0), "\(unlock.output)")
        #expect(rotation.wait() == .exited(22), "\(rotation.output)")
        try tree.expectContents()
        #expect(try volume.keyIDs(of: .completeUntilFirstUserAuthentication).count == 2)
        #expect(try volume.rotateByRecoveryKey(.completeUntilFirstUserAuthentication).succeeded)
      }
    }

    @Test func lockedAndReadOnlyMountsRefuse() throws {
      try Volume.with { volume in
        let keys = try volume.keyIDs(of: .complete)
        try volume.lock()
        let locked = try volume.rotate(.complete)
        #expect(locked.ending == .exited(1) && locked.output.contains("unlock first"), "\(locked.output)")
        try volume.remount(["-o", "ro,allow_other"])
        try volume.unlock()
        let readOnly = try volume.rotate(.complete)
        #expect(readOnly.ending == .exited(1) && readOnly.output.contains("read-only"), "\(readOnly.output)")
        #expect(try volume.keyIDs(of: .complete) == keys)
      }
    }
  }
}

extension Volume {
  func rotationWords(_ fileClass: ProtectionClass) -> [String] {
    [
      Command.path, "rotate", "--class", fileClass.name, "--passcode-file", passcodeFile.description,
      mountPoint.description,
    ]
  }

  func rotate(_ fileClass: ProtectionClass) throws -> Program.Result { try Program.run(rotationWords(fileClass)) }

  /// Whether the second copy of the keybag has the key of a new file.
  func secondCopyOpensNewFiles(in directory: PathName) throws -> Bool {
    let path = directory.appending("new")
    try path.write("new")
    defer { try? path.unlink() }
    return try Keybag(parsing: keybagFile().readPrevious(), deviceKey: volumeDeviceKey()).hasKey(of: record(of: path))
  }

  /// A rotation for tests with a hundred rotations: starts no command and checks no passcode. Returns its error.
  func rotateThroughSocket(_ fileClass: ProtectionClass) -> ControlError? {
    let key = Array(recoveryKey.utf8)
    do throws(ControlError) {
      try unsafe key.withBytes { (key) throws(ControlError) in
        try unsafe connection().rotate(fileClass, with: .recoveryKey(key)) { _ in true }
      }
      return nil
    } catch {
      return error
    }
  }

  /// A rotation without a passcode, which would take time to check.
  func rotateByRecoveryKey(_ fileClass: ProtectionClass) throws -> Program.Result {
    try Command.run(
      ["rotate", "--class", fileClass.name, "--recovery-key-file", recoveryKeyFile(), mountPoint.description])
  }
}
