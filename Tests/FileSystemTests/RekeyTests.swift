import Glibc
import InProcessKernel
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage
import Testing

@testable import BackingTree

/// Rekeys beside what else happens to their files.
@Suite struct RekeyTests {
  /// A crash has left a batch, and its file loses the name by which the kernel knows it: the search finds the file by
  /// its other name, before the batch is given up.
  @Test func aBatchIsReplayedUnderASecondName() throws {
    try InProcessStore.with({ $0.keepsLocked = false }) { store in
      let contents = (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      try store.restart(isRekeying: false)
      try store.unlock()
      try store.kernel.open("first", O_RDWR | O_CREAT).write(contents, at: 0)
      try store.kernel.link("first", as: "second")
      try store.kernel.setAttribute("user.protectfs.class", of: "first", to: Array("complete".utf8))
      try writeBatch(of: "first", in: store)

      try store.restart(isRekeying: false)
      let tree = store.tree
      #expect(!tree.unreplayed.isEmpty)
      let known = try store.kernel.inode("first")
      try store.kernel.unlink("first")
      store.daemon.startRekeying()
      try store.wait { tree.unreplayed.isEmpty }
      try store.unlock()
      #expect(try store.kernel.open("second", O_RDONLY).read(at: 0, count: 30_000) == contents)
      try store.wait { tree.rekeyStatus.pending == 0 && tree.rekeyStatus.isComplete }
      #expect(throws: Errno.noData) { try store.kernel.attribute("user.protectfs.rekey", of: "second") }
      #expect(try store.kernel.open("second", O_RDONLY).read(at: 0, count: 30_000) == contents)
      withExtendedLifetime(known) {}
    }
  }

  /// Does what the engine does of a batch before it moves the record.
  private func writeBatch(of path: PathName, in store: InProcessStore) throws {
    let tree = store.tree
    let inode = try store.kernel.inode(path)
    let node = tree.nodes.node(inode.number)
    try tree.withOpenFile(node, for: ProtectionPolicy.Operation.open) { (file) throws(Errno) in
      file.beginRekeyStep()
      defer { file.endRekeyStep() }
      let step = try file.prepareRekeyStep(room: 8192, mostChunks: RekeyBatch.chunkCount.upperBound)
      #expect(step.begins(at: file.record))
      try tree.rekeyJournal.write(step.chunks, to: 0)
      try tree.rekeyJournal.synchronize(0)
      try file.write(step)
    }
    withExtendedLifetime(inode) {}
  }

  /// A rekey restores the set-ID bits that its writes remove: it must not see a mode that is about to change.
  @Test func aRekeyWaitsForAChangeOfMode() throws {
    try InProcessStore.with { store in
      try store.kernel.open("file", O_RDWR | O_CREAT).write([1, 2, 3], at: 0)
      let inode = try store.kernel.inode("file")
      let tree = store.tree
      let kernel = store.kernel
      let request = Thread(name: "request") {
        try? kernel.setAttribute("user.protectfs.rekey", of: "file", to: [1])
      }
      try tree.holdingPrivileges(of: tree.nodes.node(inode.number)) { () throws(Errno) in
        let deadline = ContinuousClock.now + .seconds(60)
        while tree.rekeyStatus.pending == 0, .now < deadline { Thread.sleep(microseconds: 1000) }
        Thread.sleep(microseconds: 300_000)
        #expect(tree.rekeyStatus.pending == 1)
      }
      request.join()
      try store.wait { tree.rekeyStatus.pending == 0 }
      #expect(try kernel.open("file", O_RDONLY).read(at: 0, count: 10) == [1, 2, 3])
    }
  }
}
