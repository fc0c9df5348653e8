import ProtectfsIO
import StoreFormat
import SystemPackage

/// The store's keybag and its second copy, as far as they are authentic. They decide what takes whose place: a copy
/// that merely parses may say anything, and never replaces one that is authentic.
package struct AuthenticKeybags: Sendable {
  package let current: Keybag?
  package let previous: Keybag?
  /// Whether the secret is there that belongs to it. Where that cannot be told, it counts as there: without it,
  /// a keybag is given up.
  package let currentOpens: Bool
  package let previousOpens: Bool
  /// What is in the keybag's place, whatever it is; `nil` for nothing, and for what cannot be read.
  package let bytes: [UInt8]?

  init(current: Keybag?, previous: Keybag? = nil, in file: borrowing KeybagFile, bytes: [UInt8]?) {
    self.current = current
    self.previous = previous
    self.bytes = bytes
    currentOpens = if let current { file.mayOpen(current) } else { false }
    previousOpens = if let previous { file.mayOpen(previous) } else { false }
  }

  /// Both, the keybag first.
  package var all: [Keybag] { [current, previous].compactMap { $0 } }

  /// Which of them stays as the previous keybag when another takes the place of the current one. That is the current
  /// one, unless the previous one is worth more: because it alone opens, or alone has keys that the new one lacks.
  func kept(beside new: Keybag) -> Keybag? {
    guard let current else { return previous }
    // One that was to be erased is worth nothing.
    guard let previous, previousOpens, current.erasureTime == nil else { return current }
    guard currentOpens else { return previous }
    // Until the new one is in place, the current one needs its secret.
    guard current.record.effaceableIdentifier == previous.record.effaceableIdentifier else { return current }
    return new.lacking(keysOf: current).isEmpty && !new.lacking(keysOf: previous).isEmpty ? previous : current
  }

  /// Finds out that none of them is erased. Where one is, what the other has was to be erased with it, and an erasure
  /// that was cut short is no reason to bring it back.
  ///
  /// - Throws: `storeErased`.
  package func requireNoneErased() throws(KeyManagementError) {
    if let time = all.lazy.compactMap(\.erasureTime).first { throw .storeErased(at: time) }
  }

  /// What a keybag is to be put over, of which `kept` stays.
  func place(keeping kept: Keybag?) -> KeybagChange.Place {
    let parsed = bytes.flatMap { try? KeybagRecord(parsing: $0) }
    return KeybagChange.Place(bytes: bytes, secret: (kept?.record ?? parsed)?.effaceableIdentifier)
  }
}

// A keybag put in place of one that it was not made from.
extension KeybagFile {
  /// The keybag and its second copy, those that are authentic, for whoever has the store alone and is to replace one.
  ///
  /// - Throws: `unsupportedStore` where one of them needs a newer program: it is not damaged. `keybagUnreadable` for a
  ///   second copy that cannot be read now, beside a keybag that would take its place; and for either that could not be
  ///   read for a moment.
  package func authenticKeybags(
    of storeID: StoreID, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> AuthenticKeybags {
    try finishRestoration()
    let bytes = try ignoringUnreadable(true) { () throws(KeyManagementError) in try readIfThere(Self.name) }
    let current: Keybag? =
      if let bytes { try authentic(of: storeID, deviceKey) { () throws(KeyManagementError) in bytes } } else { nil }
    let previous = try ignoringUnreadable(current == nil) { () throws(KeyManagementError) in
      try secondCopy(of: storeID, deviceKey)
    }
    return AuthenticKeybags(current: current, previous: previous, in: self, bytes: bytes)
  }

  /// The same, where an exported keybag is to take the place of one.
  package func authenticKeybags(
    beside exported: borrowing OpenKeybag
  ) throws(KeyManagementError) -> AuthenticKeybags {
    try authenticKeybags(of: exported.keybag.storeID, exported.keys.deviceKey)
  }

  /// Takes what cannot be read for missing, where that lasts: what can be read a moment later may be whole, and is not
  /// given up.
  private func ignoringUnreadable<Result>(
    _ isIgnored: Bool, _ body: () throws(KeyManagementError) -> Result?
  ) throws(KeyManagementError) -> Result? {
    do throws(KeyManagementError) {
      return try body()
    } catch let failure {
      // Any other error may last, too, and says nothing of the disk.
      guard isIgnored, case .keybagUnreadable(.ioError) = failure else { throw failure }
      do throws(KeyManagementError) { _ = try body() } catch .keybagUnreadable(.ioError) { return nil }
      throw failure
    }
  }

  /// Puts the previous keybag back in place. The one there becomes the previous one, if it is authentic: the two change
  /// places in one step, as neither is anywhere else.
  ///
  /// - Throws: as ``commit(_:)``; `storeErased` where either is erased; `keybagUnreadable`, with nothing done.
  package func restore(_ previous: Keybag, over found: AuthenticKeybags) throws(KeyManagementError) {
    try found.requireNoneErased()
    var replacement = try beginReplacement()
    try require(KeybagChange.Place(bytes: found.bytes, secret: nil))
    guard try readPrevious() == previous.bytes else { throw .keybagChangedMeanwhile }
    guard found.current != nil else { return try put(previous, &replacement, keepingCurrent: false) }
    do throws(Errno) {
      try directory.rename(Self.previousName, to: Self.name, in: directory, flags: .exchange)
    } catch {
      // On a network file system, a call that fails may have been carried out.
      if (try? read()) != previous.bytes {
        guard error == .invalidArgument else { throw .keybagUnwritable(error) }
        replacement.current = nil
        return try restore(previous, &replacement.file)
      }
    }
    do throws(Errno) { try directory.synchronize() } catch { throw .keybagNotDurable(error) }
    _ = consume replacement
  }

  /// The same where names cannot be exchanged: the previous keybag has a third name while it has not its own, and
  /// ``finishRestoration()`` gives it that back.
  private func restore(_ previous: Keybag, _ file: inout AtomicFile) throws(KeyManagementError) {
    let aside = try writing { () throws(Errno) in
      let aside = try directory.open(
        Self.previousAsideName, [.writeOnly, .create, .noFollow, .nonBlocking], mode: 0o600)
      guard try aside.lock(until: MonotonicClock.now + patience) else { throw .wouldBlock }
      try aside.truncate(to: 0)
      try aside.write(previous.bytes)
      try aside.synchronize()
      try directory.synchronize()
      return aside
    }
    var failure: KeyManagementError?
    do throws(KeyManagementError) {
      try put(previous, &file, keepingCurrent: true)
    } catch {
      failure = error
      try? finishRestoration()
    }
    if [try? read(), try? readPrevious()].contains(previous.bytes) { try? directory.unlink(Self.previousAsideName) }
    _ = consume aside
    if let failure { throw failure }
  }
}
