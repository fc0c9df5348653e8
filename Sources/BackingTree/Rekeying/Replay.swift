import Contents
import FileProtection
import ProtectfsIO
import StoreFormat
import SystemPackage

/// The batches of rekeys that the previous mount left. It is unknown how much of them was written.
final class UnreplayedBatches: Sendable {
  private let batches: RankedMutex<[RekeyBatch]>
  /// Held while a file's chunks are written again.
  let turn = RankedMutex(.replay, ())

  /// Whether there were any when the store was mounted.
  let hadBatches: Bool

  package init(_ batches: [RekeyBatch]) {
    hadBatches = !batches.isEmpty
    self.batches = RankedMutex(.unreplayedBatches, batches)
  }

  var isEmpty: Bool { batches.withLock { $0.isEmpty } }

  /// The chunks, in order, that continue from the boundary of a pending rekey.
  func chunks(after pending: PendingRekey) -> [RekeyBatch.Chunk] {
    batches.withLock { $0.chunks(after: pending) }
  }

  /// Forgets the batches, after every file was examined.
  func removeAll() { batches.withLock { $0 = [] } }
}

extension BackingTree {
  /// Whether there may be files whose interrupted rekey was not replayed yet.
  package var hasUnreplayedBatches: Bool { !unreplayed.isEmpty }

  /// Replays an interrupted batch's chunks for a file, if there are any, and returns the file's record. To be called
  /// before contents are read by the record. Needs no class key. For `file`, `O_PATH` is enough.
  ///
  /// - Throws: the error of writing the chunks.
  func replayed(_ record: FileRecord, of file: borrowing Descriptor, _ node: Node) throws(Errno) -> FileRecord {
    // Also if everything is replayed, because `record` may have been read before.
    guard record.pending != nil, unreplayed.hadBatches, options.writers.mayWrite else { return record }
    return try keyChanges.read { () throws(Errno) in
      try unreplayed.turn.withLock { (_) throws(Errno) in
        try holdingPrivileges(of: node) { () throws(Errno) in try replay(node, file) }
      }
    }
  }

  /// Writes a file's chunks again and advances its record. Another request may have done so already.
  private func replay(_ node: Node, _ path: borrowing Descriptor) throws(Errno) -> FileRecord {
    try ownerPermissions.ensuring(on: path) { () throws(Errno) in
      let file = try Descriptor.open(PathName(descriptor: path), [.readWrite, .nonBlocking])
      var record = try verifiedFileRecord(try file.attribute(Self.recordAttribute), of: node, file)
      guard let chunks = record.pending.map(unreplayed.chunks), let last = chunks.last else { return record }
      try options.layout.replay(chunks, in: file)
      try file.synchronize()
      record.pending?.boundary = last.nextBoundary
      let moved = try tagged(record)
      try file.setAttribute(Self.recordAttribute, to: moved.bytes)
      try file.synchronize()
      log.notice("an interrupted rekey was replayed", metadata: ["inode": "\(node.identity.inode)"])
      return moved
    }
  }

  /// Reads in a mount while another mount writes the store and may be rekeying the file. The record must be the same
  /// before and after the read, and the chunks of batches in progress count as written. A page that is being written
  /// may not verify; it is read three more times.
  package func readBesideWriter(
    _ file: ProtectedFile, _ node: Node, _ read: (ContentsLayout.Overlay?) throws(Errno) -> UnsafeRawBufferPointer
  ) throws(Errno) -> UnsafeRawBufferPointer {
    var attempts = 4
    while true {
      let before: [UInt8]
      do throws(Errno) {
        before = try recordBytes(of: file)
      } catch {
        guard error.isOfARemovedFile, mayReadRemoved(file) else { throw error }
        do throws(Errno) { return try unsafe read(nil) } catch _ { throw error }
      }
      if before != file.record.bytes { try renewRecord(of: file, node) }
      let record = file.record
      do throws(Errno) {
        let bytes = try unsafe read(record.pending.map(overlay))
        do throws(Errno) {
          if try recordBytes(of: file) == record.bytes { return unsafe bytes }
        } catch {
          guard error.isOfARemovedFile, mayReadRemoved(file) else { throw error }
          return unsafe bytes
        }
      } catch {
        attempts -= 1
        let mayBeRight = options.layout.isAuthenticated && (error == .ioError || error.damage != nil)
        guard mayBeRight, attempts > 0 else { throw error }
        // Whoever writes it may not be running.
        MonotonicClock.sleep(microseconds: [25_000, 5000, 1000][attempts - 1])
      }
    }
  }

  /// Whether an open file may be read with the record that is known: another host has removed it, and its file system
  /// still has its contents, but no attributes (GlusterFS). Nothing says then which key they are under: only those are
  /// read that would not verify under another. Nor does anything say whether it was raised to a class that is locked:
  /// none may be.
  private func mayReadRemoved(_ file: ProtectedFile) -> Bool {
    options.layout.isAuthenticated && !file.isRefused && file.record.pending == nil
      && controller.allows(.open, on: .complete)
  }

  /// The chunks that the journal has of a file, looked up after the file was read.
  private func overlay(_ pending: PendingRekey) -> ContentsLayout.Overlay {
    { [rekeyJournal] () throws(Errno) in try rekeyJournal.batches().chunks(after: pending) }
  }
}
