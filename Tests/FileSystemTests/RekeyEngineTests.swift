import FileProtection
import Glibc
import InProcessKernel
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

@testable import BackingTree
@testable import MountDaemon

/// The rekey engine beside operations on files.
@Suite struct RekeyEngineTests {
  /// Other files get their new keys meanwhile, and are not held up.
  @Test func aFileWithAnOperationThatLastsIsLeftForLater() throws {
    try InProcessStore.with { store in
      // Several batches.
      let long = try store.file("long", count: 24 << 20)
      try store.raise("long")
      let file = try #require(store.node("long").file)
      let (isHeld, goesOn) = (Semaphore(), Semaphore())
      let holder = Thread(name: "holder") {
        file.beginRekeyStep()
        isHeld.post()
        goesOn.wait()
        file.endRekeyStep()
      }
      defer { holder.join() }
      defer { goesOn.post() }
      isHeld.wait()
      try #require(file.record.pending != nil, "it was rekeyed already")

      let other = try store.file("other", count: 4096)
      try store.raise("other")
      try store.waitForKey(of: "other")
      #expect(try other.read(at: 0, count: 4096) == [UInt8](repeating: 7, count: 4096))

      goesOn.post()
      try store.waitForKey(of: "long")
      #expect(try long.read(at: (24 << 20) - 10, count: 20) == [UInt8](repeating: 7, count: 10))
    }
  }
}

extension InProcessStore {
  /// Makes a file of class C, which stays open.
  fileprivate func file(_ name: PathName, count: Int) throws -> OpenInode {
    let file = try kernel.open(name, O_RDWR | O_CREAT)
    let bytes = [UInt8](repeating: 7, count: min(count, 1 << 20))
    for offset in stride(from: 0, to: count, by: bytes.count) {
      try #require(try file.write(bytes, at: Int64(offset)) == bytes.count)
    }
    return file
  }

  fileprivate func raise(_ name: PathName) throws {
    try kernel.setAttribute("user.protectfs.class", of: name, to: Array("complete".utf8))
  }

  fileprivate func node(_ name: PathName) throws -> Node {
    let inode = try kernel.status(of: name).ino
    return try #require(daemon.daemon.tree.nodes.openNodes().first { $0.identity.inode == inode })
  }

  fileprivate func waitForKey(of name: PathName) throws {
    let node = try node(name)
    let deadline = ContinuousClock.now + .seconds(60)
    while node.file?.record.pending != nil {
      try #require(ContinuousClock.now < deadline, "it has not got its new key")
      usleep(1000)
    }
  }
}
