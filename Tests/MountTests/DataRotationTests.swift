import CSystemCalls
import DataProtectionCore
import Glibc
import LinuxIO
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// Files that get new keys, and their contents with them.
  @Suite struct DataRotationTests {
    private static let record = PathName(FileRecord.attributeName)

    @Test func theOldKeyOpensNothing() throws {
      try Volume.with { volume in
        let contents = pattern(7, count: 300_000)
        for fileClass in ProtectionClass.allCases {
          let directory = volume.path(fileClass.letter)
          try directory.makeDirectory(of: fileClass)
          try directory.appending("inherited").write(contents)
          try directory.appending("chosen").write(contents)
          try directory.appending("chosen").setProtectionClass(fileClass)
          try directory.appending("chosen").setExtendedAttribute("user.a", to: [1, 2, 3])
        }
        try volume.shell(
          "setfacl -m u:1000:r C/chosen; chown 5:6 C/chosen; chmod 4755 C/inherited; truncate -s 9M A/chosen")
        let capability = "0x0100000200040000" + String(repeating: "0", count: 24)
        try volume.shell(
          "setfattr -n trusted.a -v b D/chosen; setfattr -n security.capability -v \(capability) D/inherited")
        try volume.shell("touch -d '2001-02-03 04:05:06.123456789' A/chosen B/inherited")
        let before = try (Snapshot(of: volume.mountPoint), volume.shellOutput("stat -c '%n %y %u %g %a' */*"))
        let blocks = try volume.path("A/chosen").status().blocks
        let file = volume.path("A/inherited")
        let keys = try StoreKeys(of: volume)
        let old = try (
          key: keys.fileKeys(of: file, on: volume), backing: volume.backingFile(of: file),
          record: volume.backingFile(of: file).extendedAttribute(Self.record)
        )
        let ciphertext = try old.backing.contents()

        #expect(try rotate(volume, "").ending == .exited(0))

        let after = try Snapshot(of: volume.mountPoint)
        #expect(after == before.0, "\(after.difference(to: before.0))")
        #expect(try volume.shellOutput("stat -c '%n %y %u %g %a' */*") == before.1)
        #expect(try volume.path("A/chosen").status().blocks <= blocks + 16, "holes are kept")
        let backing = try volume.backingFile(of: file)
        #expect(try keys.fileKeys(of: file, on: volume) != old.key)
        #expect(try backing.contents() != ciphertext)
        try volume.unmount()
        try backing.setExtendedAttribute(Self.record, to: old.record)
        try volume.mount()
        try volume.unlock()
        let found = try file.contents()
        #expect(found.count == contents.count)
        let same = stride(from: 0, to: contents.count - 15, by: 16).filter {
          found[$0..<$0 + 16] == contents[$0..<$0 + 16]
        }
        #expect(same.isEmpty, "plaintext at \(same)")
      }
    }

    @Test func whatIsOpenIsNotTouched() throws {
      try Volume.with { volume in
        for name in ["read", "written", "mapped", "free", "linked"] {
          try volume.path(name).write("contents of \(name)")
        }
        try volume.path("linked").link(as: volume.path("second name"))
        let inodes = try volume.shellOutput("stat -c '%n %i' *")
        let mapping: Mapping
        let (reader, writer) = try (
          OpenFile(volume.path("read"), O_RDONLY), OpenFile(volume.path("written"), O_WRONLY)
        )
        do { mapping = try Mapping(OpenFile(volume.path("mapped"), O_RDWR), count: 4096) }
        let result = try rotate(volume, "")
        #expect(result.ending == .exited(15), "\(result.output)")
        for name in ["read", "written", "mapped"] {
          #expect(result.output.contains("\(name) is open"), "\(result.output)")
        }
        #expect(result.output.contains("linked has several names"), "\(result.output)")
        let now = try volume.shellOutput("stat -c '%n %i' *")
        let kept = now.split(separator: "\n").filter { !$0.hasPrefix("free ") }
        #expect(kept == inodes.split(separator: "\n").filter { !$0.hasPrefix("free ") })
        #expect(now != inodes, "the free one has a new key")
        #expect(try reader.read(at: 0, count: 8) == Array("contents".utf8))
        try writer.write(Array("CONTENTS".utf8), at: 0)
        #expect(try volume.path("written").contents() == Array("CONTENTS of written".utf8))
        #expect(try mapping.read(at: 0, count: 8) == Array("contents".utf8))
      }
    }

    /// Who opens a file that is being copied waits a moment, and then has the one that has the name.
    @Test func whoOpensItMeanwhileComesFirst() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        let contents = pattern(1, count: 24 << 20)
        for turn in 0..<6 {
          try file.write(contents)
          let program = try start(volume, "file")
          usleep(UInt32.random(in: 1000...400_000))
          let change = Array("written meanwhile \(turn)".utf8)
          do {
            let opened = try OpenFile(file, O_RDWR)
            try opened.write(change, at: 0)
          }
          let ending = program.wait()
          #expect(ending == .exited(0) || ending == .exited(15), "\(program.output)")
          let wanted = change + contents[change.count...]
          #expect(try file.contents() == wanted, "turn \(turn): \(program.output)")
          #expect(try volume.mountPoint.names() == ["file"])
        }
      }
    }

    @Test func killedAnywhereItIsOldOrNew() throws {
      try Volume.with { volume in
        let faults = try Faults(in: volume.directory, backing: volume.mountPoint)
        try volume.path("d").makeDirectory(of: .complete)
        try volume.path("d/file").write(pattern(1, count: 100_000))
        try volume.path("d/file").setExtendedAttribute("user.a", to: [1])
        try volume.path("d/" + FaultOperation.long("n")).write("with a long name")
        let before = try Snapshot(of: volume.mountPoint)
        for number in 1... {
          faults.arm(.end, at: number, of: .changes)
          let result = try rotate(volume, "d", environment: faults.environment)
          faults.disarm()
          guard result.ending == .exited(FAULTS_STATUS) else {
            #expect(result.succeeded, "\(result.output)")
            break
          }
          var after = try Snapshot(of: volume.mountPoint)
          let place = "after call \(number), \(faults.hit ?? "")"
          after.entries = after.entries.filter { entry in
            ![".protectfs-new", ".protectfs-old"].contains { entry.key.description.hasSuffix($0) }
          }
          #expect(after == before, "\(place): \(after.difference(to: before))")
          #expect(try rotate(volume, "d").succeeded)
          after = try Snapshot(of: volume.mountPoint)
          #expect(after == before, "\(place), and once more: \(after.difference(to: before))")
        }
      }
    }

    private func rotate(
      _ volume: Volume, _ name: String, environment: [String: String] = [:]
    ) throws -> Program.Result {
      try Program.run([Command.path, "rotate", "--data", volume.path(name).description], environment: environment)
    }

    private func start(_ volume: Volume, _ name: String) throws -> Program {
      try Program(
        [Command.path, "rotate", "--data", volume.path(name).description],
        output: volume.directory.appending("output"))
    }
  }
}
