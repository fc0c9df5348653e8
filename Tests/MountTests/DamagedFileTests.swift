import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Damaged backing files: EIO for the one file, an entry in the log, and the file can still be removed.
  @Suite struct DamagedFileTests {
    private static let record: PathName = "user.cprotect"

    /// Creates a file, damages its record while unmounted, and expects the file to be unusable but removable.
    private func expectDamage(
      _ name: String, of fileClass: ProtectionClass = .completeUntilFirstUserAuthentication,
      _ damage: (PathName) throws -> Void
    ) throws {
      try Volume.with { volume in
        let (file, neighbour) = (volume.path("damaged"), volume.path("neighbour"))
        try file.write([UInt8](repeating: 1, count: 5000))
        try file.setProtectionClass(fileClass)
        try neighbour.write("fine")
        let backing = try volume.backingFile(of: file)
        try volume.unmount()
        try damage(backing)
        try volume.mount()
        try volume.unlock()
        #expect(throws: Errno.ioError, "\(name)") { try OpenFile(file, O_RDONLY) }
        #expect(throws: Errno.ioError, "\(name)") { try OpenFile(file, O_WRONLY | O_TRUNC) }
        #expect(throws: Errno.ioError, "\(name)") { try file.truncate(to: 0) }
        #expect(throws: Errno.ioError, "\(name)") { try file.setProtectionClass(.none) }
        #expect(try volume.mountPoint.names().count == 2, "it is listed")
        #expect(try neighbour.contents() == Array("fine".utf8))
        let backingName = String(backing.description.split(separator: "/").last!)
        #expect(volume.log.contains(backingName), "\(name): the log does not name it: \(volume.log)")
        try file.rename(to: volume.path("moved"))
        try volume.path("moved").unlink()
        #expect(!backing.exists)
      }
    }

    /// Attributes beside a damaged one can be listed and read.
    @Test func corruptAttribute() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("x")
        try file.setExtendedAttribute("user.first", to: [1])
        let backing = try volume.backingFile(of: file)
        let stored = try #require(try backing.extendedAttributeNames().first { $0.hasPrefix("user.protectfs.x.") })
        try file.setExtendedAttribute("user.second", to: [2])
        try volume.unmount()
        var value = try backing.extendedAttribute(PathName(stored))
        value[5] ^= 1
        try backing.setExtendedAttribute(PathName(stored), to: value)
        try volume.mount()
        try volume.unlock()
        #expect(try file.extendedAttributeNames() == ["user.second"])
        #expect(try file.extendedAttribute("user.second") == [2])
        #expect(volume.log.contains("an extended attribute cannot be read"))
      }
    }

    @Test func corruptRecord() throws {
      try expectDamage("a byte of the wrapped key") { try Self.change($0, byte: 20) }
    }

    @Test func wrongTag() throws {
      try expectDamage("a byte of the tag") { try Self.change($0, byte: 60) }
    }

    /// A file that is saved over another takes no class from a record that was written without the device key, and does
    /// not replace the file.
    @Test func aForgedRecordGivesNoClass() throws {
      try Volume.with(defaultClass: .complete) { volume in
        let file = volume.path("document")
        try file.write("old")
        let backing = try volume.backingFile(of: file)
        try volume.unmount()
        // Explicit, not inherited; of class D.
        try Self.change(backing, byte: 1, to: 4)
        try Self.change(backing, byte: 2, to: 1)
        try volume.mount()
        try volume.unlock()
        try volume.path("new").write("new")
        #expect(throws: Errno.ioError) { try volume.path("new").rename(to: file) }
        #expect(try volume.path("new").protectionClass() == .complete)
        try file.unlink()
        try volume.path("new").rename(to: file)
        #expect(try file.protectionClass() == .complete)
        try volume.lock()
        #expect(throws: Errno.permissionDenied) { try file.contents() }
      }
    }

    private static let damages: [(String, @Sendable (PathName) throws -> Void)] = [
      ("a byte of the class", { try change($0, byte: 1) }), ("a byte of the flags", { try change($0, byte: 2) }),
      ("a byte of the wrapped key", { try change($0, byte: 20) }), ("a byte of the tag", { try change($0, byte: 60) }),
      // As long as that of a directory.
      ("the length", { try $0.setExtendedAttribute(record, to: Array($0.extendedAttribute(record)[..<40])) }),
      ("all of it", { try $0.removeExtendedAttribute(record) }),
    ]

    /// A file saved over a file of class A must not get another class because the record cannot be read.
    @Test func nothingReplacesAFileWithADamagedRecord() throws {
      try Volume.with { volume in
        let sound = volume.path("sound")
        let files = Self.damages.map { volume.path("document, \($0.0)") }
        for path in files + [sound] {
          try path.write("old")
          try path.setProtectionClass(.complete)
        }
        let backing = try files.map { try volume.backingFile(of: $0) }
        try volume.unmount()
        for (path, damage) in zip(backing, Self.damages) { try damage.1(path) }
        let records = backing.map { try? $0.extendedAttribute(Self.record) }
        try volume.mount()
        try volume.unlock()
        for (index, file) in files.enumerated() {
          let (new, name) = (volume.path("new"), Self.damages[index].0)
          try new.write("new")
          #expect(throws: Errno.ioError, "\(name)") { try new.rename(to: file) }
          #expect(try new.contents() == Array("new".utf8), "\(name): nothing is replaced")
          #expect(try new.protectionClass() == .completeUntilFirstUserAuthentication)
          #expect((try? backing[index].extendedAttribute(Self.record)) == records[index], "\(name): it stays as it is")
          #expect(throws: Errno.ioError, "\(name)") { try file.protectionClass() }
          // Nor does it take over a class that it cannot be put into.
          #expect(throws: Errno.ioError, "\(name)") { try file.rename(to: sound) }
          let backingName = String(backing[index].description.split(separator: "/").last!)
          #expect(volume.log.contains(backingName), "\(name): the log does not name it: \(volume.log)")
        }
        #expect(try sound.contents() == Array("old".utf8))
        try volume.unmount()
        let check = try Command.run(["fsck", volume.backing.description, "--device-key", volume.deviceKey.description])
        #expect(check.ending == .exited(4), "\(check.output)")
        let advice = check.output.components(of: "from a backup of the backing directory")
        #expect(advice == files.count, "it does not say how to go on: \(check.output)")
        try volume.mount()
        try volume.unlock()
        for file in files {
          try file.unlink()
          try volume.path("new").rename(to: file)
          #expect(try file.contents() == Array("new".utf8))
          try volume.path("new").write("new")
        }
      }
    }

    /// Class A changed to D: refused, not opened in the weaker class.
    @Test func tamperedClass() throws {
      try expectDamage("the class", of: .complete) { try Self.change($0, byte: 1, to: 4) }
    }

    @Test func unknownVersion() throws {
      try expectDamage("the version") { try Self.change($0, byte: 0, to: 2) }
    }

    @Test func cutRecord() throws {
      try expectDamage("the length") { path in
        let record = try path.extendedAttribute(Self.record)
        try path.setExtendedAttribute(Self.record, to: Array(record[..<40]))
      }
    }

    @Test func missingRecord() throws {
      try expectDamage("no record") { try $0.removeExtendedAttribute(Self.record) }
    }

    @Test func impossibleLength() throws {
      try Volume.with { volume in
        let file = volume.path("damaged")
        try file.write([UInt8](repeating: 1, count: 5000))
        let backing = try volume.backingFile(of: file)
        try volume.unmount()
        // 5000 bytes are backed by 5016; no length is backed by 5.
        try backing.truncate(to: 5)
        try volume.mount()
        try volume.unlock()
        #expect(throws: Errno.ioError) { try OpenFile(file, O_RDONLY) }
        try file.unlink()
      }
    }

    /// A record moved from another file opens with that file's key: the bytes are garbage, and nothing else happens.
    @Test func exchangedDirectoryRecords() throws {
      try Volume.with { volume in
        try volume.path("directory").makeDirectory()
        try volume.path("directory/file").write("x")
        let backing = try volume.backingFile(of: volume.path("directory"))
        try volume.unmount()
        try Self.change(backing, byte: 1, to: 1)
        try volume.mount()
        try volume.unlock()
        #expect(throws: Errno.ioError) { try volume.path("directory").names() }
        #expect(throws: Errno.ioError) { try OpenFile(volume.path("directory/new"), O_CREAT | O_WRONLY) }
        #expect(try volume.mountPoint.names() == ["directory"])
      }
    }

    @Test func undecodableNames() throws {
      try Volume.with { volume in
        try volume.path("file").write("x")
        try volume.unmount()
        let foreign = [
          "README", "k4AGErWo7mRXIiv5_slnrhw", "~" + String(repeating: "A", count: 43), "not base64!", "~x",
        ]
        for name in foreign { try volume.backing.appending(name).write("foreign") }
        try volume.mount()
        try volume.unlock()
        #expect(try volume.mountPoint.names() == ["file"])
        #expect(try volume.mountPoint.names() == ["file"])
        #expect(try volume.status().undecodableNames == foreign.count)
        #expect(volume.log.split(separator: "\n").count { $0.contains("README") } == 1, "logged once: \(volume.log)")
        #expect(try volume.mountPoint.status().mode & 0o170000 == 0o040000)
        #expect(throws: Errno.noSuchFileOrDirectory) { try volume.path("README").status() }
        let status = try Command.run(["status", volume.mountPoint.description])
        #expect(status.succeeded && status.output.contains("\(foreign.count)"), "\(status.output)")
      }
    }

    /// A crash between the creation of a file and its record: the file is usable, and adopted when first opened for
    /// writing.
    @Test func recordlessEmptyFilesAreAdopted() throws {
      try Volume.with { volume in
        try volume.path("A").makeDirectory(of: .complete)
        let files = (0..<3).map { volume.path("A/file \($0)") }
        for file in files { try file.write("x") }
        let backing = try files.map { try volume.backingFile(of: $0) }
        try volume.unmount()
        for file in backing {
          try file.truncate(to: 0)
          try file.removeExtendedAttribute(Self.record)
        }
        try volume.mount()
        #expect(try files[0].protectionClass() == .complete)
        #expect(throws: Errno.permissionDenied) { try OpenFile(files[0], O_WRONLY) }
        try volume.unlock()
        #expect(try files[0].contents() == [])
        #expect(throws: Errno.noData) { try backing[0].extendedAttribute(Self.record) }
        try files[0].write("one")
        do {
          let reading = try OpenFile(files[1], O_RDONLY)
          try files[1].write("two")
          #expect(try reading.read(at: 0, count: 10) == Array("two".utf8))
        }
        try files[2].setProtectionClass(.none)
        try volume.remount()
        #expect(try files[2].protectionClass() == .none)
        try volume.unlock()
        #expect(try files[0].contents() == Array("one".utf8) && files[1].contents() == Array("two".utf8))
        #expect(try files[0].protectionClass() == .complete)
      }
    }

    private static func change(_ path: PathName, byte index: Int, to value: UInt8? = nil) throws {
      var bytes = try path.extendedAttribute(record)
      bytes[index] = value ?? bytes[index] ^ 0x10
      try path.setExtendedAttribute(record, to: bytes)
    }
  }
}

extension String {
  /// How often a text occurs.
  fileprivate func components(of text: String) -> Int {
    indices.count { self[$0...].hasPrefix(text) }
  }
}
