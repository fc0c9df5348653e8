import ProtectfsIO
import StoreFormat
import SystemPackage

// The erasure of a store: the one change that must come to its end whatever keybag is in place, and also where there is
// no room for another file. What destroys the keys is the overwriting of the effaceable secret, and that needs none.
extension KeybagFile {
  /// What an erasure has done.
  package struct Erasure: Sendable {
    /// The keybag that is in place now.
    package let tombstone: Keybag
    /// What failed when the store was erased already; a mount of the store repairs it.
    package let failure: KeyManagementError?
  }

  /// Erases the store: puts a tombstone in place of the keybag that is there, and overwrites everything that it needs.
  /// Each step is tried, whatever became of the one before.
  ///
  /// An erasure that was cut short, or of which something failed, is finished: all of it is written again, since what
  /// reads as erased may not be so on the disk.
  ///
  /// - Parameter known: what the caller takes for the keybag, in case that the one in place is damaged.
  /// - Throws: `keybagUnwritable` where the store opens as before.
  package func erase(
    _ known: Keybag, deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> Erasure {
    let deadline = MonotonicClock.now + patience
    var file: AtomicFile?
    var noRoom: Errno?
    // A writer that does not finish is overtaken: what it is about to put in place would undo this.
    do throws(Errno) {
      file = try AtomicFile(replacing: Self.name, in: directory, patience: patience, overtakes: true)
    } catch {
      noRoom = error
    }
    var lock = try? lockCurrent(until: deadline)
    let current = (try? copy(Self.name, of: known.storeID, deviceKey)) ?? known
    let isRepeated = current.erasureTime != nil
    let noted = isRepeated ? current : self.tombstone(of: current, deviceKey)
    let tombstone = if let noted { noted } else { try current.erased(deviceKey: deviceKey) }
    var failure: KeyManagementError?
    if noRoom == nil {
      do throws(KeyManagementError) {
        lock = nil
        // What is the second copy by now is overwritten where it lies; a tombstone there stays.
        try put(tombstone, &file!, keepingCurrent: noted == nil)
      } catch {
        if case .keybagUnwritable(let error) = error { noRoom = error } else { failure = error }
      }
    }
    do throws(KeyManagementError) {
      if let noRoom {
        try eraseInPlace(current, leaving: tombstone, after: noRoom)
      } else {
        try finishErasure(tombstone)
      }
    } catch {
      guard error.isAfterChange else { throw error }
      failure = failure ?? error
    }
    _ = consume lock
    _ = consume file
    return Erasure(tombstone: tombstone, failure: failure)
  }

  /// What is left to do when the tombstone is in place.
  ///
  /// - Throws: the first failure; the steps after it were tried too.
  private func finishErasure(_ tombstone: Keybag) throws(KeyManagementError) {
    var failures: [KeyManagementError] = []
    do throws(KeyManagementError) { try efface(tombstone) } catch { failures.append(error) }
    do throws(KeyManagementError) { try overwritePrevious() } catch { failures.append(error) }
    do throws(KeyManagementError) {
      try replacePrevious(with: tombstone, overtakes: true)
    } catch {
      // It holds nothing any more that another would have to be written aside for.
      if (try? overwrite(Self.previousName, with: tombstone)) == nil { failures.append(error) }
    }
    if let failure = failures.first { throw failure }
  }

  /// Overwrites the keybag before an erased one where it lies: one without an effaceable secret would still open.
  private func overwritePrevious() throws(KeyManagementError) {
    do throws(Errno) {
      let file = try directory.open(Self.previousName, [.readWrite, .noFollow, .nonBlocking])
      let status = try file.status()
      guard status.type == .regular, !status.isSame(as: try directory.status(of: Self.name)) else { return }
      let zeros = [UInt8](repeating: 0, count: Int(min(status.size, UInt64(KeybagRecord.longest))))
      try unsafe zeros.withBytes { (bytes) throws(Errno) in try unsafe file.write(bytes, at: 0) }
      try file.synchronize()
    } catch {
      if error != .noSuchFileOrDirectory { throw .previousKeybagKept(error) }
    }
  }

  // MARK: Where there is no room

  /// Erases the store by overwriting alone, in an order of which each prefix opens as before, or never again:
  ///
  /// 1. The second copy becomes the tombstone. The keybag opens as before.
  /// 2. The effaceable secret is overwritten. Nothing opens any more, and ``tombstone(of:_:)`` has the time.
  /// 3. The two names are exchanged.
  /// 4. What was the keybag becomes the tombstone too.
  ///
  /// Where there is no second copy, or names cannot be exchanged, the keybag is overwritten where it lies. Each step is
  /// tried after one that failed, as long as the store does not open as before.
  private func eraseInPlace(
    _ current: Keybag, leaving tombstone: Keybag, after noRoom: Errno
  ) throws(KeyManagementError) {
    let isNoted = (try? overwriteSecondCopy(with: tombstone)) == true
    var failures: [KeyManagementError] = []
    do throws(KeyManagementError) { try efface(tombstone) } catch { failures.append(error) }
    if !failures.isEmpty, opens(current) { throw .keybagUnwritable(noRoom) }
    let isExchanged =
      isNoted
      && (try? directory.rename(Self.previousName, to: Self.name, in: directory, flags: .exchange)) != nil
    do throws(Errno) {
      if isExchanged { try directory.synchronize() } else { try overwrite(Self.name, with: tombstone) }
    } catch {
      let isInPlace = (try? read()) == tombstone.bytes
      if !isInPlace, opens(current) { throw .keybagUnwritable(noRoom) }
      failures.append(isInPlace ? .keybagNotDurable(error) : .erasureNotNoted(error))
    }
    do throws(Errno) {
      _ = try overwriteSecondCopy(with: tombstone)
    } catch {
      failures.append(.previousKeybagKept(error))
    }
    if let failure = failures.first { throw failure }
  }

  /// Makes the second copy the tombstone, and what a restoration has put aside; returns whether there is a second copy
  /// that is no name of the keybag.
  private func overwriteSecondCopy(with tombstone: Keybag) throws(Errno) -> Bool {
    if (try? directory.status(of: Self.previousAsideName))?.type == .regular {
      try overwrite(Self.previousAsideName, with: tombstone)
    }
    guard let second = try? directory.status(of: Self.previousName),
      second.inode != (try? directory.status(of: Self.name))?.inode
    else { return false }
    try overwrite(Self.previousName, with: tombstone)
    return true
  }

  /// Writes a tombstone over a keybag where it lies. What was longer is overwritten before it is cut off.
  private func overwrite(_ name: PathName, with tombstone: Keybag) throws(Errno) {
    let file = try directory.open(name, [.readWrite, .noFollow, .nonBlocking])
    let status = try file.status()
    guard status.type == .regular else { throw .invalidArgument }
    let bytes = tombstone.bytes
    let rest = max(0, Int(min(status.size, UInt64(KeybagRecord.longest))) - bytes.count)
    try file.write(bytes + [UInt8](repeating: 0, count: rest))
    var failure: Errno?
    do throws(Errno) { try file.synchronize() } catch { failure = error }
    if status.size > UInt64(bytes.count) {
      // Also after a failure: whoever finishes the erasure is to find a tombstone.
      try file.truncate(to: UInt64(bytes.count))
      try file.synchronize()
    }
    if let failure { throw failure }
  }

  /// The tombstone that an erasure which was cut short has left in the second copy: its secret is gone, or nobody
  /// can read it any more, but the keybag still in place. `nil` where that is not so.
  package func tombstone(of keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey) -> Keybag? {
    guard keybag.record.effaceableIdentifier != nil, let bytes = try? readPrevious(),
      let previous = try? Keybag(parsing: bytes, deviceKey: deviceKey), previous.erasureTime != nil,
      previous.record.follows(keybag.record), hasSecret(of: keybag.record) != true
    else { return nil }
    return previous
  }
}
