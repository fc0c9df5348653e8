import CSystemCalls
import Contract
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// Files that get new keys and are re-encrypted.
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
        let before = try (Snapshot(of: volume.mountPoint), volume.shellOutput("stat -c '%n %u %g %a' */*"))
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
        let isSame = after == before.0
        #expect(isSame, "\(after.difference(to: before.0))")
        #expect(try volume.shellOutput("stat -c '%n %u %g %a' */*") == before.1)
        #expect(try volume.path("A/chosen").status().blocks <= blocks, "holes are kept")
        let backing = try volume.backingFile(of: file)
        #expect(try keys.fileKeys(of: file, on: volume) != old.key)
        let isOld = try backing.contents() == ciphertext
        #expect(!isOld)
        try volume.unmount()
        try backing.setExtendedAttribute(Self.record, to: old.record)
        try volume.mount()
        try volume.unlock()
        if TestedStores.areAuthenticated {
          #expect(throws: Errno.ioError) { try file.contents() }
          return
        }
        let found = try file.contents()
        #expect(found.count == contents.count)
        let same = stride(from: 0, to: contents.count - 15, by: 16).filter {
          found[$0..<$0 + 16] == contents[$0..<$0 + 16]
        }
        #expect(same.isEmpty, "plaintext at \(same)")
      }
    }

    @Test func whatIsOpenIsRotatedToo() throws {
      try Volume.with { volume in
        for name in ["written", "mapped", "linked"] { try volume.path(name).write("contents of \(name)") }
        try volume.path("linked").link(as: volume.path("second name"))
        let inodes = try volume.shellOutput("stat -c '%n %i' *")
        let keys = try StoreKeys(of: volume)
        let names = ["written", "mapped", "linked"]
        let before = try names.map { try keys.fileKeys(of: volume.path($0), on: volume) }
        let writer = try OpenFile(volume.path("written"), O_WRONLY)
        let mapping = try Mapping(OpenFile(volume.path("mapped"), O_RDWR), count: 4096)
        let result = try rotate(volume, "")
        #expect(result.succeeded && result.output.contains("3 files got a new key"), "\(result.output)")
        for (name, key) in zip(names, before) {
          #expect(try keys.fileKeys(of: volume.path(name), on: volume) != key, "\(name)")
        }
        #expect(try volume.shellOutput("stat -c '%n %i' *") == inodes)
        try writer.write(Array("CONTENTS".utf8), at: 0)
        try expectSame(volume.path("written").contents(), Array("CONTENTS of written".utf8))
        try expectSame(mapping.read(at: 0, count: 8), Array("contents".utf8))
      }
    }

    private func rotate(
      _ volume: Volume, _ name: String, environment: [String: String] = [:]
    ) throws -> Program.Result {
      try Program.run([Command.path, "rotate", "--data", volume.path(name).description], environment: environment)
    }
  }
}
