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
      // The engine begins when the file is held.
      try store.restart(isRekeying: false)
      try store.unlock()
      // Several batches.
      let long = try store.file("long", count: 24 << 20)
      try store.raise("long")
      let file = try #require(store.node("long").file)
      try file.whileHeld {
        store.daemon.startRekeying()
        let other = try store.file("other", count: 4096)
        try store.raise("other")
        try store.waitForKey(of: "other")
        #expect(try other.read(at: 0, count: 4096) == [UInt8](repeating: 7, count: 4096))
      }
      try store.waitForKey(of: "long")
      #expect(try long.read(at: (24 << 20) - 10, count: 20) == [UInt8](repeating: 7, count: 10))
    }
  }

  /// The last record of a rekey was written, but neither was that reported nor could it be read back: the batch was not
  /// undone, and needs not be.
  @Test func aRecordThatTurnsOutToBeThereEndsABatch() throws {
    try InProcessStore.with { store in
      try store.restart(isRekeying: false)
      try store.unlock()
      let tree = store.tree
      let open = try store.file("file", count: 10_000)
      try store.raise("file")
      let node = try store.node("file")
      let file = try tree.openFile(node, forWriting: true)
      let engine = RekeyEngine(tree)

      file.beginRekeyStep()
      var job = RekeyEngine.Job(
        node: node, file: file, step: try file.prepareRekeyStep(room: 1 << 20, mostChunks: 1000))
      try tree.rekeyJournal.write(job.step.chunks, to: engine.slot)
      try tree.rekeyJournal.synchronize(engine.slot)
      try file.write(job.step)
      (job.isWritten, job.failure) = (true, .ioError)
      var next = file.record
      next.pending = nil
      next = try tree.tagged(next)
      try file.withDescriptor { (descriptor) throws(Errno) in try tree.setRecord(next.bytes, of: descriptor) }
      file.refuseUntilRenewed()
      engine.strand([job])
      file.endRekeyStep()

      #expect(throws: Errno.ioError) { try open.read(at: 0, count: 10) }
      #expect(engine.rescue())
      #expect(engine.stranded == nil && !file.isRefused && file.record.pending == nil)
      #expect(try open.read(at: 0, count: 20_000) == [UInt8](repeating: 7, count: 10_000))
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
