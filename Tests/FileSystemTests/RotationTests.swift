import Glibc
import InProcessKernel
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage
import Testing

@testable import BackingTree

/// A rotation misses no file, wherever it is.
@Suite struct RotationTests {
  private static let fileClass = ProtectionClass.standard

  /// A program holds a file by `O_PATH` that has lost its last name.
  @Test func aFileWithoutAName() throws {
    try InProcessStore.with { store in
      try store.kernel.open("file", O_RDWR | O_CREAT).write([1, 2, 3], at: 0)
      let held = try store.kernel.inode("file")
      try store.kernel.unlink("file")
      try store.rotate(Self.fileClass)
      #expect(try store.kernel.open(held, O_RDONLY).read(at: 0, count: 3) == [1, 2, 3])
    }
  }

  /// A directory that the kernel knows was moved behind the mount's back.
  @Test func aDirectoryAtAnotherPlace() throws {
    try InProcessStore.with { store in
      for name: PathName in ["from", "to"] { try store.kernel.makeDirectory(name) }
      try store.kernel.open("from/file", O_RDWR | O_CREAT).write([1, 2, 3], at: 0)
      let (from, to) = try (store.backingName(of: "from"), store.backingName(of: "to"))
      try store.restart()
      try store.unlock()
      let known = try store.kernel.inode("from")
      let root = try store.root()
      try root.rename(from, to: to, in: root, flags: [])
      try store.rotate(Self.fileClass)
      #expect(try store.kernel.open("to/file", O_RDONLY).read(at: 0, count: 3) == [1, 2, 3])
      withExtendedLifetime(known) {}
    }
  }

  /// Behind the mount's back another directory takes the place of one that is to be walked, or of the one above it, as
  /// when an overlay copies it or a backup is put back. It has a file that the old one has lost.
  @Test(arguments: [false, true], [1, 2]) func aDirectoryThatIsReplaced(isKnown: Bool, directoriesBefore: Int) throws {
    let files: [PathName] = ["above/file", "above/restored", "above/below/file"]
    try InProcessStore.with { store in
      for name: PathName in ["above", "above/below"] { try store.kernel.makeDirectory(name) }
      for file in files { try store.kernel.open(file, O_RDWR | O_CREAT).write([1, 2, 3], at: 0) }
      let root = try store.root()
      let above = try store.backingName(of: "above")
      let restored = try store.backingName(of: "above/restored", in: above)
      try root.open(above, [.readOnly]).rename(restored, to: "aside", in: root, flags: [])
      try store.restart()
      try store.unlock()
      var known: [Any] = []
      if isKnown { known = try ["above", "above/file", "above/below/file"].map { try store.kernel.inode($0) } }
      var (directories, isReplaced) = (0, false)
      try store.rotate(Self.fileClass) {
        directories += 1
        guard directories == directoriesBefore else { return }
        let old = try root.open(above, [.readOnly])
        try root.makeDirectory("new", mode: 0o700)
        let new = try root.open("new", [.readOnly])
        let record = PathName(FileRecord.attributeName)
        try new.setAttribute(record, to: old.attribute(record))
        for name in try old.nextNames() { try old.rename(name, to: name, in: new, flags: []) }
        try root.rename("aside", to: restored, in: new, flags: [])
        try root.rename("new", to: above, in: root, flags: [])
        isReplaced = true
      }
      #expect(isReplaced)
      try store.restart()
      try store.unlock()
      for file in files {
        #expect(try store.kernel.open(file, O_RDONLY).read(at: 0, count: 3) == [1, 2, 3], "\(file)")
      }
      withExtendedLifetime(known) {}
    }
  }

  /// A record that a newer version wrote may be intact: the old key is kept for it.
  @Test func aRecordOfAnotherVersion() throws {
    try InProcessStore.with { store in
      try store.kernel.open("file", O_RDWR | O_CREAT).write([1, 2, 3], at: 0)
      let backing = try store.root().open(store.backingName(of: "file"), [.readWrite])
      let attribute = PathName(FileRecord.attributeName)
      let record = try backing.attribute(attribute)
      let old = try store.keyIDs(of: Self.fileClass)
      try store.restart()
      try store.unlock()
      try backing.setAttribute(attribute, to: [record[0] + 1] + record.dropFirst())
      try store.rotate(Self.fileClass)
      #expect(try store.keyIDs(of: Self.fileClass).contains(old[0]))
      try backing.setAttribute(attribute, to: record)
      #expect(try store.kernel.open("file", O_RDONLY).read(at: 0, count: 3) == [1, 2, 3])
      try store.rotate(Self.fileClass)
      #expect(try store.keyIDs(of: Self.fileClass).count == 1)
      #expect(try store.kernel.open("file", O_RDONLY).read(at: 0, count: 3) == [1, 2, 3])
    }
  }

  /// An empty file without a record, which is given one when it is opened for writing.
  @Test func anOpenFileWithoutARecord() throws {
    try InProcessStore.with { store in
      try store.kernel.makeNode("file", mode: S_IFREG | 0o600)
      let backing = try store.backingName(of: "file")
      try store.restart()
      try store.unlock()
      let descriptor = try store.root().open(backing, [.readWrite])
      try PathName(descriptor: descriptor).removeAttribute(PathName(FileRecord.attributeName))
      let reader = try store.kernel.open("file", O_RDONLY)
      try store.rotate(Self.fileClass)
      try store.kernel.open("file", O_RDWR).write([1, 2, 3], at: 0)
      #expect(try reader.read(at: 0, count: 3) == [1, 2, 3])
      try store.restart()
      try store.unlock()
      #expect(try store.kernel.open("file", O_RDONLY).read(at: 0, count: 3) == [1, 2, 3])
    }
  }

  /// A rotation that finds a new file finds its handle too, and so replaces the record in memory with that on disk.
  @Test func aNewFileIsOpenWhenItIsFound() throws {
    try InProcessStore.with { store in
      let tree = store.tree
      let kernel = store.kernel
      let isDone = Atomic(false)
      let creator = Thread(name: "creator") {
        // They stay open.
        let files = (0..<1500).map { try? kernel.open(PathName("\($0)"), O_RDWR | O_CREAT) }
        isDone.store(true, ordering: .relaxed)
        while isDone.load(ordering: .relaxed) { Thread.sleep(microseconds: 1000) }
        withExtendedLifetime(files) {}
      }
      var unopened = 0
      while !isDone.load(ordering: .relaxed) {
        tree.keyChanges.write { if tree.nodes.count != tree.openFiles.all.count { unopened += 1 } }
      }
      isDone.store(false, ordering: .relaxed)
      creator.join()
      #expect(unopened == 0)
    }
  }
}

extension InProcessStore {
  fileprivate func root() throws -> Descriptor {
    try Descriptor.open(PathName(directory.path + "/backing"), [.readOnly, .directory])
  }

  /// The backing name of a file in a backing directory, if none is given in the root.
  fileprivate func backingName(of path: PathName, in directory: PathName = ".") throws -> PathName {
    let inode = try kernel.status(of: path).ino
    let directory = try root().open(directory, [.readOnly, .directory])
    return try #require(directory.nextNames().first { (try? directory.status(of: $0).inode) == inode })
  }

  fileprivate func keyIDs(of fileClass: ProtectionClass) throws -> [ClassKeyID] {
    try keybag().keyIDs(of: fileClass)
  }
}
