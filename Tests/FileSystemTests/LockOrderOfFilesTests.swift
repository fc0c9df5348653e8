import CFUSE
import Glibc
import InProcessKernel
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

/// In which order a lock takes files from the kernel.
@Suite struct LockOrderOfFilesTests {
  /// Those first that nobody writes: no page of theirs has to be written back before it is gone.
  @Test func filesThatAreOnlyReadGoFirst() throws {
    try InProcessStore.with { store in
      let kernel = store.kernel
      try kernel.makeDirectory("d")
      try kernel.setAttribute("user.protectfs.class", of: "d", to: Array("complete".utf8))
      let names = (0..<20).map { PathName("d/\($0)") }
      for name in names { try kernel.open(name, O_CREAT | O_WRONLY).write([1], at: 0) as Void }
      let open = try names.enumerated().map { (index, name) throws(Errno) in
        try kernel.open(name, index % 2 == 0 ? O_RDWR : O_RDONLY)
      }
      for file in open { _ = try file.read(at: 0, count: 1) as [UInt8] }
      let before = kernel.device.notices.count
      try store.enter(.locked)
      let dropped = kernel.device.notices.dropFirst(before)
        .filter { $0.code == CInt(FUSE_NOTIFY_INVAL_INODE.rawValue) }.map(\.inode)
      func first(of isWritten: Bool) throws -> [Int] {
        try open.enumerated().filter { ($0.offset % 2 == 0) == isWritten }.map {
          try #require(dropped.firstIndex(of: $0.element.inode.number))
        }
      }
      let (readers, writers) = try (first(of: false), first(of: true))
      #expect(try #require(readers.max()) < #require(writers.min()), "\(readers) \(writers)")
    }
  }
}
