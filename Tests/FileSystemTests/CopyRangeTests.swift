import Contract
import Glibc
import InProcessKernel
import ProtectfsIO
import SystemPackage
import Testing

@testable import BackingTree

/// copy_file_range(2) between classes.
@Suite struct CopyRangeTests {
  /// A few bytes about the border of two units, of which the second is the file's last: both are read, and one block.
  @Test func aroundABorder() throws {
    try InProcessStore.with { store in
      let source = try store.kernel.open("source", O_RDWR | O_CREAT)
      let bytes = (0..<4100).map { UInt8(truncatingIfNeeded: $0) }
      _ = try source.write(bytes, at: 0)
      #expect(try source.read(at: 4095, count: 2) == Array(bytes[4095..<4097]))
      let target = try store.kernel.open("target", O_RDWR | O_CREAT)
      #expect(try source.copyRange(from: 4095, to: target, at: 0, count: 2) == 2)
      #expect(try target.read(at: 0, count: 100) == Array(bytes[4095..<4097]))
    }
  }

  /// A lock waits for what was read of a file and is not yet in the other.
  @Test func anEvictionWaitsForACopy() throws {
    try InProcessStore.with { store in
      let bytes = [UInt8](repeating: 7, count: 100_000)
      let source = try store.kernel.open("source", O_RDWR | O_CREAT)
      try store.kernel.setAttribute("user.protectfs.class", of: "source", to: Array("complete".utf8))
      _ = try source.write(bytes, at: 0)
      let target = try store.kernel.open("target", O_RDWR | O_CREAT)
      let file = try #require(store.tree.nodes.node(target.inode.number).file)
      let copier = try file.whileHeld {
        let copier = Thread(name: "copier") {
          // An eviction that comes into the read, below, wipes the key there, and the copy fails.
          _ = (0..<1000).first { _ in (try? source.copyRange(from: 0, to: target, at: 0, count: 100_000)) != nil }
        }
        // Reading takes it for a moment too.
        try store.wait { (0..<1000).allSatisfy { _ in !store.fileSystem.evictKeys(of: .complete, until: 0) } }
        return copier
      }
      defer { copier.join() }
      try store.wait { store.fileSystem.evictKeys(of: .complete, until: 0) }
      try store.wait { try target.read(at: 0, count: 200_000) == bytes }
    }
  }
}
