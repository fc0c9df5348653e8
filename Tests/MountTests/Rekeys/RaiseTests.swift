import Contract
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// A class that protects more brings a new key, and older records open nothing.
  @Suite struct RaiseTests {
    private static let record = PathName(FileRecord.attributeName)

    /// An older record, put back by an attacker who may write the backing directory.
    @Test(arguments: [ProtectionClass.completeUntilFirstUserAuthentication, .none, .completeWhenUserInactive])
    func anOlderRecordOpensNothing(_ old: ProtectionClass) throws {
      try Volume.with { volume in
        try volume.path("d").makeDirectory(of: old)
        let file = volume.path("d/file")
        try file.write(pattern(1, count: 10_000))
        let backing = try volume.backingFile(of: file)
        let record = try backing.extendedAttribute(Self.record)
        let key = try volume.record(of: file).wrappedKey
        try file.setProtectionClass(.complete)
        let secret = pattern(2, count: 10_000)
        try file.write(secret)
        try volume.waitForRekeys()
        #expect(try volume.record(of: file).wrappedKey != key)
        try volume.lock()
        try backing.setExtendedAttribute(Self.record, to: record)
        #expect(throws: Errno.self) { try file.contents() }
        try volume.remount()
        if old != .none { try volume.unlock() }
        if let found = try? file.contents() { #expect(!found.containsBlocks(of: secret)) }
      }
    }

    /// While the file is known, a weaker record is refused.
    @Test func aWeakerRecordIsRefused() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("contents")
        let backing = try volume.backingFile(of: file)
        let record = try backing.extendedAttribute(Self.record)
        try file.setProtectionClass(.complete)
        try volume.waitForRekeys()
        try backing.setExtendedAttribute(Self.record, to: record)
        #expect(throws: Errno.ioError) { try file.contents() }
        #expect(volume.log.contains("an older record was put in its place"))
      }
    }

    /// As editors save: a new file in class C is renamed over a file of explicit class.
    @Test func aSaveByRenameDrawsANewKey() throws {
      try Volume.with { volume in
        try volume.path("file").write("old")
        try volume.path("file").setProtectionClass(.complete)
        let secret = pattern(3, count: 9000)
        try volume.path("aside").write(secret)
        let aside = try volume.backingFile(of: volume.path("aside"))
        let record = try aside.extendedAttribute(Self.record)
        try volume.path("aside").rename(to: volume.path("file"))
        try volume.waitForRekeys()
        #expect(try volume.path("file").protectionClass() == .complete)
        try expectSame(volume.path("file").contents(), secret)
        let backing = try volume.backingFile(of: volume.path("file"))
        try volume.unmount()
        try backing.setExtendedAttribute(Self.record, to: record)
        try volume.mount()
        try volume.unlock()
        if TestedStores.areAuthenticated {
          #expect(throws: Errno.ioError) { try volume.path("file").contents() }
        } else {
          #expect(try !volume.path("file").contents().containsBlocks(of: secret))
        }
      }
    }

    @Test func anEmptyFileDrawsItsKeyAtOnce() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("")
        let key = try volume.record(of: file).wrappedKey
        try file.setProtectionClass(.complete)
        let record = try volume.record(of: file)
        #expect(record.pending == nil && record.wrappedKey != key)
        try file.write("contents")
        try expectSame(volume.path("file").contents(), Array("contents".utf8))
      }
    }

    /// Raises and other changes: whether the key stays.
    @Test func onlyARaiseDrawsAKey() throws {
      try Volume.with { volume in
        let keys = try StoreKeys(of: volume)
        let classes: [ProtectionClass] = [
          .completeUntilFirstUserAuthentication, .completeWhenUserInactive, .complete, .completeUnlessOpen,
        ]
        for old in classes {
          for new in classes {
            let file = volume.path("\(old.letter)\(new.letter)")
            try file.write(pattern(1, count: 5000))
            try file.setProtectionClass(old)
            try volume.waitForRekeys()
            let before = try keys.fileKeys(of: file, on: volume)
            try file.setProtectionClass(new)
            try volume.waitForRekeys()
            let isSame = try keys.fileKeys(of: file, on: volume) == before
            #expect(isSame == !ProtectionPolicy.isRaise(from: old, to: new), "\(old) to \(new)")
            try expectSame(file.contents(), pattern(1, count: 5000))
          }
        }
      }
    }

    @Test func rewrapKeepsTheKey() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write("contents")
        let keys = try StoreKeys(of: volume)
        let before = try keys.fileKeys(of: file, on: volume)
        #expect(try Command.run(["class", "set", "--rewrap", "complete", file.description]).succeeded)
        #expect(try file.protectionClass() == .complete)
        #expect(try keys.fileKeys(of: file, on: volume) == before)
      }
    }

    /// Open, mapped, linked, locked and unlinked files stay so, and holes stay holes.
    @Test func whoUsesAFileNoticesNothing() throws {
      try Volume.with { volume in
        let contents = pattern(1, count: 3_000_000)
        for name in ["file", "gone"] { try volume.path(name).write(contents) }
        let file = volume.path("file")
        try file.link(as: volume.path("second name"))
        try file.setExtendedAttribute("user.note", to: Array("a remark".utf8))
        let (opened, gone) = try (OpenFile(file, O_RDWR), OpenFile(volume.path("gone"), O_RDWR))
        try opened.lock(LOCK_EX)
        let mapping = try Mapping(opened, count: 8192)
        try expectSame(mapping.read(at: 0, count: 100), Array(contents[..<100]))
        let sparse = volume.path("sparse")
        try OpenFile(sparse, O_CREAT | O_RDWR).write(Array("in the middle".utf8), at: 600_000_000)
        try sparse.truncate(to: 1 << 40)
        let (inode, blocks) = try (file.status().inode, sparse.status().blocks)
        for name in ["file", "gone", "sparse"] { try volume.path(name).setProtectionClass(.complete) }
        try volume.path("gone").unlink()
        try opened.write(Array("written meanwhile".utf8), at: 2_999_000)
        try mapping.write(Array("mapped".utf8), at: 4096)
        try volume.waitForRekeys()
        var wanted = contents
        wanted.replaceSubrange(2_999_000..<2_999_017, with: Array("written meanwhile".utf8))
        wanted.replaceSubrange(4096..<4102, with: Array("mapped".utf8))
        try expectSame(volume.path("second name").contents(), wanted)
        try expectSame(opened.read(at: 0, count: wanted.count), wanted)
        try expectSame(gone.read(at: 0, count: contents.count), contents)
        #expect(try file.status().inode == inode && file.status().links == 2)
        #expect(try file.extendedAttribute("user.note") == Array("a remark".utf8))
        #expect(try sparse.status().blocks <= blocks && sparse.status().size == 1 << 40)
        try expectSame(OpenFile(sparse, O_RDONLY).read(at: 600_000_000, count: 13), Array("in the middle".utf8))
      }
    }

    /// Concurrent writers lose nothing.
    @Test func writersLoseNothing() throws {
      try Volume.with { volume in
        let file = volume.path("file")
        try file.write([])
        let opened = try OpenFile(file, O_RDWR)
        var wanted = pattern(1, count: 2_000_000)
        try opened.write(wanted, at: 0)
        for turn in 0..<40 {
          try file.rekey()
          for _ in 0..<10 {
            let piece = pattern(turn, count: Int.random(in: 1...20_000))
            let place = Int.random(in: 0...wanted.count)
            try opened.write(piece, at: place)
            wanted.replaceSubrange(place..<min(place + piece.count, wanted.count), with: piece)
          }
          if turn % 8 == 0 {
            wanted.removeLast(wanted.count / 2)
            try opened.truncate(to: wanted.count)
          }
          if turn % 3 == 0 { try opened.synchronizeData() }
        }
        try volume.waitForRekeys()
        try expectSame(file.contents(), wanted)
      }
    }
  }
}

extension [UInt8] {
  /// Whether an AES block of these bytes is at the same place here.
  func containsBlocks(of other: [UInt8]) -> Bool {
    stride(from: 0, to: Swift.min(count, other.count) - 15, by: 16).contains {
      self[$0..<$0 + 16] == other[$0..<$0 + 16]
    }
  }
}
