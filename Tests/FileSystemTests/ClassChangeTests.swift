import CFUSE
import Glibc
import InProcessKernel
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

@testable import BackingTree
@testable import FUSE

/// Changes of class beside what else happens to their files.
@Suite struct ClassChangeTests {
  /// While it is unknown which record a file has, it is refused; the next open reads the record.
  @Test func anUnknownRecordIsReadAgain() throws {
    try InProcessStore.with { store in
      let file = try store.kernel.open("file", O_RDWR | O_CREAT)
      try file.write([1, 2, 3], at: 0)
      let tree = store.tree
      try #require(tree.nodes.node(file.inode.number).file).refuseUntilRenewed()
      #expect(throws: Errno.ioError) { try file.read(at: 0, count: 3) }
      #expect(try store.kernel.open("file", O_RDONLY).read(at: 0, count: 3) == [1, 2, 3])
      #expect(try file.read(at: 0, count: 3) == [1, 2, 3])
    }
  }

  /// A refusal is reported with its class, also of a file that was never open.
  @Test func theFirstOpenIsReportedToo() throws {
    try InProcessStore.with { store in
      try store.kernel.open("file", O_RDWR | O_CREAT).write([1], at: 0)
      try store.enter(.beforeFirstUnlock)
      for count in 1...2 {
        #expect(throws: Errno.permissionDenied) { try store.kernel.open("file", O_RDONLY) }
        #expect(store.daemon.daemon.status().refusals == count)
      }
    }
  }

  /// So is that of a change to a class which is locked, by setxattr(2) or by a rename: few programs look at its error.
  @Test func aRefusedRaiseIsReported() throws {
    try InProcessStore.with { store in
      for name in ["own", "old", "new"] { _ = try store.kernel.open(PathName(name), O_RDWR | O_CREAT) }
      let name = PathName(ProtectionClass.attributeName), complete = Array(ProtectionClass.complete.name.utf8)
      try store.kernel.setAttribute(name, of: "old", to: complete)
      try store.enter(.locked)
      let refusals = { store.daemon.daemon.status().refusals }
      #expect(throws: Errno.permissionDenied) { try store.kernel.setAttribute(name, of: "own", to: complete) }
      #expect(refusals() == 1)
      #expect(throws: Errno.permissionDenied) { try store.kernel.rename("new", to: "old") }
      #expect(refusals() == 2)
    }
  }

  /// A lock waits for the kernel's write-backs as long as they come. A program that writes past the cache does not hold
  /// it up.
  @Test func onlyWriteBacksProlongALock() throws {
    try InProcessStore.with(defaultClass: .complete) { store in
      let file = try store.kernel.open("file", O_RDWR | O_CREAT)
      let fileSystem = store.fileSystem
      store.tree.controller.setAvailability(.revoking, of: .complete)
      try file.write([1], at: 0)
      #expect(fileSystem.completedPushes == 0)
      try file.write([1], at: 0, isWriteBack: true)
      #expect(fileSystem.completedPushes == 1)
    }
  }

  /// Nor do the writes of such a program that are refused while no worker is free.
  @Test func onlyRefusedWriteBacksCount() throws {
    try InProcessStore.with(defaultClass: .complete) { store in
      let file = try store.kernel.open("file", O_RDWR | O_CREAT)
      store.tree.controller.setAvailability(.unavailable, of: .complete)
      for (flags, count) in [(0, 0), (FUSE_WRITE_CACHE, 1)] {
        var header = fuse_in_header()
        header.opcode = FUSE_WRITE.rawValue
        header.nodeid = file.inode.number
        var request = Message(header)
        request.append(
          fuse_write_in(fh: 0, offset: 0, size: 1, write_flags: UInt32(flags), lock_owner: 0, flags: 0, padding: 0))
        let isRefused = unsafe request.bytes.withUnsafeBytes { unsafe store.fileSystem.refuses(RequestHeader($0)) }
        #expect(isRefused)
        #expect(store.fileSystem.refusedWriteBacks == count)
      }
    }
  }
}
