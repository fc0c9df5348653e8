import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

/// Another mount of a volume's store, unlocked. Unmounted with its last reference.
final class SecondMount {
  let mountPoint: PathName
  private let recoveryKey: String
  private let program: Program

  init(
    of volume: Volume, _ name: String, backing: PathName? = nil, deviceKey: PathName? = nil, options: String
  ) throws {
    mountPoint = volume.directory.appending(name)
    recoveryKey = volume.recoveryKey
    if !mountPoint.exists { try mountPoint.makeDirectory() }
    program = try Program(
      [
        Command.path, "mount", (backing ?? volume.backing).description, mountPoint.description, "--foreground",
        "--device-key", (deviceKey ?? volume.deviceKey).description, "-o", options,
      ] + Volume.optionsOfAll, output: volume.directory.appending("log.\(name)"))
    let deadline = ContinuousClock.now + patience
    while (try? DaemonConnection(mountPoint: mountPoint.description)) == nil {
      if let ending = program.poll() { throw MountFailure(ending: ending, output: program.output) }
      try #require(ContinuousClock.now < deadline, "the mount does not come up: \(program.output)")
      usleep(2000)
    }
  }

  deinit {
    try? mountPoint.unmount(isLazy: true)
    program.send(SIGTERM)
    _ = program.wait(seconds: 10)
  }

  /// Unmounts, and waits until the daemon has ended.
  func end() throws {
    try mountPoint.unmount(isLazy: false)
    try #require(program.wait() == .exited(0))
  }

  /// Sends its daemon a signal.
  func send(_ signal: CInt) { program.send(signal) }

  /// What it has logged.
  var output: String { program.output }

  func path(_ name: String) -> PathName { mountPoint.appending(name) }

  /// Unlocks without scrypt, which a passcode takes.
  func unlock() throws {
    var connection = try DaemonConnection(mountPoint: mountPoint.description)
    try connection.unlock(recoveryKey: recoveryKey)
  }

  func unlock(_ passcode: String) throws {
    var connection = try DaemonConnection(mountPoint: mountPoint.description)
    try connection.unlock(passcode: passcode)
  }
}

extension SecondMount {
  func lock() throws {
    var connection = try DaemonConnection(mountPoint: mountPoint.description)
    try connection.lock(gracePeriod: .zero)
  }
}

extension MountTests {
  /// One mount writes a store; any number of mounts read it.
  @Suite struct SeveralMountsTests {
    @Test func readersSeeWhatTheWriterDoes() throws {
      try Volume.with { volume in
        let readers = try ["first", "second"].map { try SecondMount(of: volume, $0, options: "ro") }
        for reader in readers { try reader.unlock() }
        let long = String(repeating: "l", count: 200)
        try volume.path("d").makeDirectory()
        try volume.path("d/file").write("one")
        try volume.path("d/\(long)").write("long")
        for reader in readers {
          #expect(try reader.path("d/file").contents() == Array("one".utf8))
          #expect(try reader.path("d/\(long)").contents() == Array("long".utf8))
          #expect(throws: Errno.readOnlyFileSystem) { try reader.path("d/file").write("x") }
        }
        let held = try OpenFile(readers[0].path("d/file"), O_RDONLY)
        try volume.path("d/file").write("two, and longer")
        try volume.path("d/\(long)").unlink()
        try volume.path("d/file").setProtectionClass(.complete)
        try volume.path("d").setProtectionClass(.completeUnlessOpen)
        for reader in readers {
          #expect(try reader.path("d/file").contents() == Array("two, and longer".utf8))
          #expect(!reader.path("d/\(long)").exists)
          #expect(try reader.path("d/file").protectionClass() == .complete)
          #expect(try reader.path("d").protectionClass() == .completeUnlessOpen)
        }
        #expect(try held.read(at: 0, count: 100) == Array("two, and longer".utf8))
        // Lengths are asked for: holes too are where the writer has put them.
        #expect(try held.seek(to: 0, .hole) == 15)
        try volume.path("d/file").write("two")
        #expect(try held.seek(to: 0, .hole) == 3)
        #expect(try held.read(at: 0, count: 100) == Array("two".utf8))
        try volume.path("d/file").write("two, and longer")
        // The class set by the writer also applies to the reader's lock.
        try readers[0].lock()
        #expect(throws: Errno.permissionDenied) { try readers[0].path("d/file").contents() }
        #expect(throws: Errno.permissionDenied) { try held.read(at: 0, count: 100) }
        try readers[0].unlock()
        // Another file with the same name is another file.
        try volume.path("new").write("three")
        try volume.path("new").rename(to: volume.path("d/file"))
        for reader in readers { #expect(try reader.path("d/file").contents() == Array("three".utf8)) }
        try volume.path("d").rename(to: volume.path("e"))
        for reader in readers {
          #expect(!reader.path("d").exists)
          #expect(try reader.path("e/file").contents() == Array("three".utf8))
        }
      }
    }

    /// Not even a time changes.
    @Test func aReaderLeavesAccessTimes() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("text")
        try file.setTimes(seconds: 1)
        let backing = try volume.backingFile(of: file)
        let reader = try SecondMount(of: volume, "reader", options: "ro")
        try reader.unlock()
        #expect(try reader.path("file").contents() == Array("text".utf8))
        #expect(try Program.run(["stat", "-c", "%X", backing.description]).output == "1\n")
      }
    }

    /// A descriptor opened while the file was of class C, and a mapping: the reader's lock finds the new class.
    @Test func aLockRenewsTheRecordsOfOpenFiles() throws {
      try Volume.with { volume in
        let reader = try SecondMount(of: volume, "reader", options: "ro")
        try reader.unlock()
        let names = ["complete", "unless open", "closed", "damaged", "unchanged"]
        for name in names { try volume.path(name).write([UInt8](repeating: 0x41, count: 4096)) }
        let held = try names.map { try OpenFile(reader.path($0), O_RDONLY) }
        let maps = try held.map { try Mapping($0, count: 4096, isWritable: false) }
        for (file, map) in zip(held, maps) {
          #expect(try file.read(at: 0, count: 1) == [0x41] && map.read(at: 0, count: 1) == [0x41])
        }
        try volume.path("complete").setProtectionClass(.complete)
        try volume.path("closed").setProtectionClass(.complete)
        try volume.path("unless open").setProtectionClass(.completeUnlessOpen)
        let damaged = try volume.backingFile(of: volume.path("damaged"))
        let record = try damaged.extendedAttribute("user.cprotect")
        try damaged.setExtendedAttribute("user.cprotect", to: record.map { $0 ^ 1 })
        try reader.lock()
        #expect(throws: Errno.permissionDenied) { try held[0].read(at: 0, count: 1) }
        #expect(throws: Errno.badAddress) { try maps[0].read(at: 0, count: 1) }
        #expect(try held[1].read(at: 0, count: 1) == [0x41], "what is open of class B goes on")
        #expect(try maps[1].read(at: 0, count: 1) == [0x41])
        #expect(throws: Errno.permissionDenied) { try held[2].read(at: 0, count: 1) }
        #expect(throws: Errno.ioError) { try held[3].read(at: 0, count: 1) }
        #expect(throws: Errno.badAddress) { try maps[3].read(at: 0, count: 1) }
        #expect(try held[4].read(at: 0, count: 1) == [0x41])
        try damaged.setExtendedAttribute("user.cprotect", to: record)
        try reader.unlock()
        for name in names { #expect(try reader.path(name).contents().first == 0x41, "\(name)") }
        for file in held { #expect(try file.read(at: 0, count: 1) == [0x41]) }
      }
    }

    /// Of an open file that another host has removed, GlusterFS has the contents still, but not the record: who cannot
    /// say which key they are under returns none of them, unless they verify. A lock closes it.
    @Test(arguments: [false, true]) func aFileThatAnotherHostHasRemoved(isAuthenticated: Bool) throws {
      let environment = { (directory: PathName) in Faults.environment(directory.appending("faults")) }
      try Volume.store(initOptions: isAuthenticated ? ["--authenticated"] : [], environment: environment) { volume in
        let faults = try Faults(of: volume)
        let contents = pattern(1, count: 1 << 20)
        try volume.mount()
        try volume.unlock()
        try volume.path("file").write(contents)
        try volume.unmount()
        try volume.mount(["-o", "ro"])
        try volume.unlock()
        let held = try OpenFile(volume.path("file"), O_RDONLY | OpenFile.direct)
        var found: [UInt8] = []
        func read() throws(Errno) { found = try held.read(at: 4096, count: 4096) }
        func readWithoutRecord() -> Errno? {
          faults.during(.failOn(.staleNFSFileHandle), at: 1, of: .records, read).error
        }
        #expect(readWithoutRecord() == (isAuthenticated ? nil : .staleNFSFileHandle))
        #expect(found == (isAuthenticated ? Array(contents[4096..<8192]) : []))
        let lock = faults.during(.failOn(.staleNFSFileHandle), at: 1, of: .records) { () throws(Errno) in
          do { try volume.lock() } catch { throw .canceled }
        }
        #expect(lock.error == nil && lock.hit == "fgetxattr")
        #expect(failure(of: read) == .ioError)
        try volume.unlock()
        #expect(try volume.path("file").contents() == contents)
        try read()
        #expect(found == Array(contents[4096..<8192]))
      }
    }

    /// Files get new keys while another mount reads them, also through older handles.
    @Test func readersFollowARekey() throws {
      try Volume.with { volume in
        let reader = try SecondMount(of: volume, "reader", options: "ro")
        try reader.unlock()
        let contents = pattern(1, count: 6 << 20)
        let file = volume.path("file")
        try file.write(contents)
        let held = try OpenFile(reader.path("file"), O_RDONLY | OpenFile.direct)
        for turn in 0..<12 {
          if turn % 2 == 0 { try file.rekey() } else { try file.setProtectionClass(turn % 4 == 1 ? .complete : .none) }
          var reads = 0
          repeat {
            let place = Int.random(in: 0..<1400) * 4096
            let found = try held.read(at: place, count: 65_536)
            expectSame(found, Array(contents[place..<place + 65_536]), "turn \(turn), at \(place)")
            reads += 1
          } while try reads < 20 || file.isRekeyPending()
          try expectSame(reader.path("file").contents(), contents, "turn \(turn)")
        }
      }
    }

    @Test func aWriterComesBesideReaders() throws {
      try Volume.store { volume in
        let reader = try SecondMount(of: volume, "reader", options: "ro")
        try reader.unlock()
        #expect(try fsck(volume).ending == .exited(0), "a check goes on beside it")
        #expect(try fsck(volume, "--repair").ending == .exited(8), "a repair does not")
        try volume.mount()
        try volume.unlock()
        try volume.path("file").write("x")
        #expect(try reader.path("file").contents() == Array("x".utf8))
        let refused = try fsck(volume)
        #expect(refused.ending == .exited(8))
        #expect(refused.output.contains("protectfs unmount \(volume.mountPoint)"), "\(refused.output)")
      }
    }

    /// The first mount is not in the table of mounts here. The lock refuses the second, and ends with its process.
    @Test func aSecondWriterIsRefusedByTheLock() throws {
      try Volume.with { volume in
        let other = volume.directory.appending("other")
        try other.makeDirectory()
        func mountElsewhere() throws -> Program.Result {
          try Program.run([
            "unshare", "--mount", "sh", "-c", "umount -l \(volume.mountPoint) && exec \"$@\"", "sh", Command.path,
            "mount", volume.backing.description, other.description, "--foreground", "--device-key",
            volume.deviceKey.description,
          ])
        }
        let refused = try mountElsewhere()
        #expect(refused.ending == .exited(7), "\(refused.output)")
        #expect(refused.output.contains("in use by another daemon"), "\(refused.output)")
        try volume.path("file").write("x")
        volume.kill()
        try volume.mount()
        try volume.unlock()
        #expect(try volume.path("file").contents() == Array("x".utf8))
      }
    }

    /// Both are of one store: where one was moved to another path, that path leads to its own daemon.
    @Test func aMountThatWasMovedHasItsOwnDaemon() throws {
      try Volume.with(defaultClass: .complete) { volume in
        try volume.path("file").write("contents")
        let reader = try SecondMount(of: volume, "reader", options: "ro")
        try reader.unlock()
        let moved = volume.directory.appending("moved")
        try moved.makeDirectory()
        func move(_ from: PathName, _ to: PathName) throws {
          try #require(try Program.run(["mount", "--bind", from.description, to.description]).succeeded)
          try from.unmount(isLazy: true)
        }
        try move(volume.mountPoint, moved)
        defer { try? moved.unmount(isLazy: true) }
        do {
          var connection = try DaemonConnection(mountPoint: moved.description)
          #expect(connection.processID == volume.processID)
          try connection.lock(gracePeriod: .zero)
        }
        #expect(throws: Errno.permissionDenied) { try moved.appending("file").contents() }
        #expect(try reader.path("file").text() == "contents")
        try move(moved, volume.mountPoint)
        try volume.unlock()
        #expect(try volume.path("file").text() == "contents")
      }
    }

    @Test func readersTakeANewPasscode() throws {
      try Volume.with { volume in
        let reader = try SecondMount(of: volume, "reader", options: "ro")
        let new = volume.directory.appending("new")
        try new.write("a new passcode\n", mode: 0o600)
        // By the backing directory, which two mounts have: the writing one gets the request.
        let changed = try Command.run([
          "passcode", "change", "--passcode-file", volume.passcodeFile.description, "--new-passcode-file",
          new.description, volume.backing.description,
        ])
        #expect(changed.succeeded, "\(changed.output)")
        #expect(throws: ControlError.self) { try reader.unlock(Volume.passcode) }
        try reader.unlock("a new passcode")
      }
    }

    private func fsck(_ volume: Volume, _ options: String...) throws -> Program.Result {
      try Command.run(["fsck", volume.backing.description, "--device-key", volume.deviceKey.description] + options)
    }
  }
}
