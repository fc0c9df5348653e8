import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// A store on a file system that serves several hosts, and grants an flock(2) on each of them.
  @Suite struct TwoHostsTests {
    /// What writes a store, or must exclude writers, and the exit status of a refusal.
    static let writers: [(words: [String], status: CInt)] = [
      (["mount", "--foreground"], 7), (["mount", "--foreground", "-o", "shared"], 7), (["fsck", "--repair"], 8),
      (["fsck"], 8), (["passcode", "change", "--passcode-file", "P", "--new-passcode-file", "P"], 7),
      (["key", "add", "--passcode-file", "P", "--new-passcode-file", "P"], 7),
      (["erase", "--class", "complete", "--yes", "--passcode-file", "P"], 7),
      (["keybag", "restore", "--yes"], 7), (["keybag", "reset", "--yes", "--new-passcode-file", "P"], 7),
    ]

    /// A command of the other host, started.
    private func start(_ words: [String], _ volume: Volume, _ backing: PathName, _ name: String) throws -> Program {
      var words = words.map { $0 == "P" ? volume.passcodeFile.description : $0 } + [backing.description]
      if words[0] == "mount" {
        let mountPoint = volume.directory.appending("mount.\(name)")
        try mountPoint.makeDirectory()
        words.append(mountPoint.description)
      }
      return try Program(
        [Command.path] + words + ["--device-key", volume.deviceKey.description],
        output: volume.directory.appending("output.\(name)"))
    }

    @Test func oneOfThemWrites() throws {
      try Volume.onHosts(others: Self.writers.count) { volume, _, others in
        try volume.mount()
        try volume.unlock()
        try volume.path("file").write("x")
        let store = try volume.ownFiles()
        // They wait for a writer that may be about to end, so all run at once, each on a host of its own.
        let programs = try Self.writers.enumerated().map { number, writer in
          (writer, try start(writer.words, volume, others[number], "\(number)"))
        }
        for (writer, program) in programs {
          #expect(program.wait() == .exited(writer.status), "\(writer.words): \(program.output)")
          #expect(
            program.output.contains("another host or process writes the store"), "\(writer.words): \(program.output)")
        }
        #expect(try volume.ownFiles() == store)
        let reader = try SecondMount(of: volume, "reader", backing: others[0], options: "ro")
        try reader.unlock()
        #expect(try reader.path("file").contents() == Array("x".utf8))
        try volume.path("file").write("y")
        #expect(try reader.path("file").contents() == Array("y".utf8))
      }
    }

    /// syncfs(2) has nothing made durable there: each file is, before it is marked as clean, and before the class key
    /// goes that its last record was wrapped with.
    @Test func filesAreMadeDurableOneByOne() throws {
      try Volume.onHosts(others: 0, initOptions: ["--authenticated"]) { volume, host, _ in
        try volume.mount()
        try volume.unlock()
        let files = ["one", "two"].map(volume.path)
        for file in files { try file.write("x") }
        let paths = try files.map { "/\(try volume.backingFile(of: $0).description.split(separator: "/").last!)" }
        let rotation = try Command.run([
          "rotate", "--class", "C", "--recovery-key-file", volume.recoveryKeyFile(), volume.mountPoint.description,
        ])
        #expect(rotation.succeeded, "\(rotation.output)")
        let rotated = host.log
        let keybags = rotated.indices.filter { rotated[$0].hasPrefix("fsync /.protectfs/keybag") }
        for path in paths {
          let file = rotated.indices.filter { rotated[$0].hasSuffix(" \(path)") }
          #expect(file.suffix(2).map { rotated[$0] } == ["user.cprotect \(path)", "fsync \(path)"], "\(rotated)")
          #expect(file.last! < keybags.last!, "\(rotated)")
        }
        try volume.unmount()
        for path in paths {
          let file = host.log.dropFirst(rotated.count).filter { $0.hasSuffix(" \(path)") }
          #expect(file == ["fsync \(path)", "user.cprotect \(path)"], "\(file)")
        }
      }
    }

    /// The claim ends with the process that has it, also at a crash.
    @Test func theOtherWritesThen() throws {
      try Volume.onHosts(others: 1) { volume, _, others in
        try volume.mount()
        try volume.unlock()
        volume.kill()
        try? volume.mountPoint.unmount(isLazy: true)
        do {
          let second = try SecondMount(of: volume, "second", backing: others[0], options: "allow_other")
          try second.unlock()
          try second.path("more").write("z")
          let refused = try start(["mount", "--foreground"], volume, volume.backing, "refused")
          #expect(refused.wait() == .exited(7), "\(refused.output)")
        }
        let checked = try start(["fsck", "--repair"], volume, volume.backing, "checked")
        #expect(checked.wait() == .exited(0), "\(checked.output)")
        try volume.mount()
        try volume.unlock()
        #expect(try volume.path("more").contents() == Array("z".utf8))
      }
    }

    @Test func aStoreWithoutTheFileIsGivenIt() throws {
      try Volume.store { volume in
        let writer = volume.backing.appending(".protectfs/writer")
        #expect(writer.exists, "init makes it")
        try writer.unlink()
        do {
          let reader = try SecondMount(of: volume, "reader", options: "ro")
          try reader.unlock()
        }
        #expect(!writer.exists, "who only reads makes none")
        try volume.shell("chown -R 4321:4321 backing", in: ".")
        try volume.mount()
        let status = try writer.status()
        #expect(status.mode & 0o7777 == 0o600 && status.size == 16, "it has the identifier of a claim")
        #expect(try writer.contents() != [UInt8](repeating: 0, count: 16))
        #expect([status.user, status.group] == [4321, 4321], "it is the store's owner's")
        try volume.unmount()
        #expect(try writer.contents() == [UInt8](repeating: 0, count: 16), "the claim was given up")
        try writer.setMode(0o666)
        try volume.mount()
        #expect(try writer.status().mode & 0o7777 == 0o600, "who can open it can keep writers out")
      }
    }

    @Test func somethingElseInItsPlace() throws {
      try Volume.store { volume in
        let writer = volume.backing.appending(".protectfs/writer")
        let victim = volume.directory.appending("victim")
        try victim.write("kept")
        let plant: [() throws -> Void] = [
          { try writer.makeSymbolicLink(to: victim) }, { try writer.makeDirectory() },
          { try volume.shell("mkfifo backing/.protectfs/writer", in: ".") },
        ]
        for (number, plant) in plant.enumerated() {
          try volume.shell("rm -rf backing/.protectfs/writer", in: ".")
          try plant()
          for words in [["mount", "--foreground"], ["fsck"], ["fsck", "--repair"]] {
            let program = try start(words, volume, volume.backing, "\(number).\(words.count).\(words[0])")
            #expect(program.wait() == .exited(words[0] == "fsck" ? 8 : 1), "\(program.output)")
            #expect(program.output.contains("is no regular file"), "\(program.output)")
          }
        }
        #expect(try victim.contents() == Array("kept".utf8) && victim.status().mode & 0o7777 == 0o644)
      }
    }
  }
}
