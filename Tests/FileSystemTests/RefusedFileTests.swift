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
