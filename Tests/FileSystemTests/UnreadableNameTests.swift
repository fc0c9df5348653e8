import Glibc
import InProcessKernel
import ProtectfsIO
import SystemPackage
import Testing

@testable import BackingTree

/// Directories with a name that cannot be read.
@Suite struct UnreadableNameTests {
  /// The disk has lost the block of a sidecar, say: the other names are there, and that one is missing is told.
  @Test(.enabled(if: geteuid() == 0, "only root makes devices"), arguments: [true, false])
  func hidesNoOther(lookingUp: Bool) throws {
    try InProcessStore.with { store in
      let long = PathName(String(repeating: "x", count: 250))
      let others = (10..<50).map { PathName("file \($0)") }
      for name in [long] + others { _ = try store.kernel.open(name, O_RDWR | O_CREAT) }
      let record = try store.tree.directory(store.tree.nodes.root).record
      let sidecar = try #require(try store.tree.backingName(long, in: record).sidecar).name
      let path = "\(store.directory.path)/backing/\(sidecar)"
      let isRemoved = unsafe unlink(path) == 0
      // It opens, but what is read without a connection is EPERM; EACCES where devices do not open.
      let isDevice = unsafe mknod(path, S_IFCHR | 0o600, 10 << 8 | 229) == 0
      try #require(isRemoved && isDevice)
      var items: [InProcessKernel.DirectoryItem] = []
      #expect(throws: Errno.self) {
        try store.kernel.list("/", lookingUp: lookingUp, capacity: 400, into: &items)
      }
      #expect(Set(items.map(\.name)) == Set(others + [".", ".."]))
    }
  }
}
