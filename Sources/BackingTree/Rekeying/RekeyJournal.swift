import KeyManagement
import Logging
import ProtectfsIO
import StoreFormat
import SystemPackage

/// `.protectfs/rekey.0` and `.protectfs/rekey.1`: the batches in progress, for a mount after a crash.
///
/// The engine alternates between two slots: while the records of one batch are being made durable, it writes the next
/// batch to the other slot. If these files exist, a rekey may be pending somewhere.
final class RekeyJournal: Sendable {
  private struct State {
    var slots: [SharedDescriptor] = []
    var number: UInt64 = 0
  }

  private let root: SharedDescriptor
  private let volume: VolumeKeys
  private let state = RankedMutex(.rekeyJournal, State())

  package init(root: SharedDescriptor, volume: VolumeKeys) {
    self.root = root
    self.volume = volume
  }

  /// Whether a rekey may be pending in the store.
  var isThere: Bool {
    guard let directory = try? openDirectory() else { return false }
    return RekeyBatch.names.contains { (try? directory.status(of: $0)) != nil }
  }

  /// ``VolumeKeys/rekeyBatches(in:)`` of the store.
  func batches() throws(Errno) -> [RekeyBatch] { try volume.rekeyBatches(in: openDirectory()) }

  /// Creates the files and makes them durable, before the first record of a pending rekey is written.
  ///
  /// - Throws: the error of creating them: `ENOSPC`, `EROFS`.
  func open() throws(Errno) {
    try state.withLock { (state) throws(Errno) in
      guard state.slots.isEmpty else { return }
      let directory = try openDirectory()
      var slots: [SharedDescriptor] = []
      for name in RekeyBatch.names {
        slots.append(
          SharedDescriptor(
            try directory.open(name, [.readWrite, .create, .noFollow, .nonBlocking], mode: 0o600)))
      }
      try directory.synchronize()
      state.number = try batches().last?.number ?? 0
      state.slots = slots
    }
  }

  /// Writes a batch to a slot, without making it durable.
  func write(_ chunks: [RekeyBatch.Chunk], to slot: Int) throws(Errno) {
    let file = try opened(slot)
    let number = state.withLock { state in
      state.number += 1
      return state.number
    }
    let batch: RekeyBatch
    do { batch = try volume.tagged(RekeyBatch(number: number, chunks: chunks)) } catch { throw Errno(error) }
    let bytes = batch.bytes
    try file.descriptor.write(bytes)
    try file.descriptor.truncate(to: UInt64(bytes.count))
  }

  /// Makes a slot durable.
  func synchronize(_ slot: Int) throws(Errno) { try opened(slot).descriptor.synchronize() }

  /// Empties a slot, durably.
  func clear(_ slot: Int) throws(Errno) {
    let file = try opened(slot)
    guard try file.descriptor.status().size > 0 else { return }
    try file.descriptor.truncate(to: 0)
    try file.descriptor.synchronize()
  }

  /// Removes the files, when no rekey is pending in the store.
  func remove() throws(Errno) {
    try state.withLock { (state) throws(Errno) in
      state.slots = []
      let directory = try openDirectory()
      for name in RekeyBatch.names {
        do throws(Errno) { try directory.unlink(name) } catch { if error != .noSuchFileOrDirectory { throw error } }
      }
    }
  }

  private func opened(_ slot: Int) throws(Errno) -> SharedDescriptor {
    try open()
    return state.withLock { $0.slots[slot] }
  }

  private func openDirectory() throws(Errno) -> Descriptor {
    try root.descriptor.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
  }
}
