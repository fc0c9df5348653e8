import FileProtection
import Glibc
import InProcessKernel
import ProtectfsIO
import StoreFormat
import SystemPackage
import Testing

@testable import BackingTree

/// Files that are refused because it is unknown which record they have, and what ends that.
@Suite struct RefusedFileTests {
  /// The change of class had taken effect, though it was reported to have failed, and the class is locked meanwhile:
  /// the lock knew the file by its former class, and has left its pages.
  @Test func thePagesOfALockedClassAreDropped() throws {
    try InProcessStore.with { store in
      let open = try store.kernel.open("file", O_RDWR | O_CREAT)
      try open.write([1, 2, 3], at: 0)
      let (node, file) = try store.openFile("file")
      try file.withDescriptor { (descriptor) throws(Errno) in
        let record = try store.tree.rewrapped(file.record, for: .complete, isExplicit: true)
        try store.tree.setRecord(record.bytes, of: descriptor)
      }
      file.refuseUntilRenewed()
      try store.enter(.locked)
      let before = store.kernel.device.notices.count
      #expect(throws: Errno.permissionDenied) { try store.kernel.open("file", O_RDONLY) }
      #expect(file.fileClass == .complete && !file.isRefused)
      let number = try store.kernel.inode("file").number
      #expect(
        store.kernel.device.waitForNotices { notices in notices.dropFirst(before).contains { $0.inode == number } })
      withExtendedLifetime(node) {}
    }
  }

  /// Its first record was not written, and it could not be read at once that there is none.
  @Test func anEmptyFileWithoutARecordIsAcceptedAgain() throws {
    try InProcessStore.with { store in
      _ = try store.kernel.open("file", O_RDWR | O_CREAT)
      try store.restart()
      try store.unlock()
      let root = try store.tree.directory(store.tree.nodes.root).record
      let name = try store.tree.backingName("file", in: root).name
      try Descriptor.open(PathName("\(store.directory.path)/backing/\(name)"), [.readWrite])
        .removeAttribute(PathName(FileRecord.attributeName))
      let open = try store.kernel.open("file", O_RDONLY)
      let (_, file) = try store.openFile("file")
      file.refuseUntilRenewed()
      #expect(throws: Errno.ioError) { try open.read(at: 0, count: 10) }
      _ = try store.kernel.open("file", O_RDONLY)
      #expect(!file.isRefused)
      #expect(try open.read(at: 0, count: 10) == [])
      try store.kernel.open("file", O_RDWR).write([1, 2, 3], at: 0)
      #expect(try open.read(at: 0, count: 10) == [1, 2, 3])
    }
  }
}

extension InProcessStore {
  fileprivate func openFile(_ name: PathName) throws -> (Node, ProtectedFile) {
    let inode = try kernel.status(of: name).ino
    let node = try #require(tree.nodes.openNodes().first { $0.identity.inode == inode })
    return (node, try #require(node.file))
  }
}
