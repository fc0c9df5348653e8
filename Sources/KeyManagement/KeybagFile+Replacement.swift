import ProtectfsIO
import StoreFormat
import SystemPackage

/// The store's keybag and its second copy, as far as they are authentic. They decide what takes whose place: a copy that
/// merely parses may say anything, and never replaces one that is authentic.
package struct AuthenticKeybags: Sendable {
  package let current: Keybag?
  package let previous: Keybag?
  /// Whether the secret is there that belongs to it.
  package let currentOpens: Bool
  package let previousOpens: Bool
  /// What is in the keybag's place, whatever it is.
  fileprivate let bytes: [UInt8]?

  /// Both, the keybag first.
  package var all: [Keybag] { [current, previous].compactMap { $0 } }

  /// Which of them stays as the previous keybag when another takes the place of the current one. That is the current one,
  /// unless the previous one is worth more: because it alone opens, or alone has keys that the new one lacks.
  package func kept(beside new: Keybag) -> Keybag? {
    guard let current else { return previous }
    guard let previous, previousOpens else { return current }
    guard currentOpens else { return previous }
    // Until the new one is in place, the current one needs its secret.
    guard current.record.effaceableIdentifier == previous.record.effaceableIdentifier else { return current }
    return new.lacking(keysOf: current).isEmpty && !new.lacking(keysOf: previous).isEmpty ? previous : current
  }
}

// A keybag put in place of one that it was not made from.
extension KeybagFile {
  /// The keybag and its second copy; `authenticate` returns those that are authentic, and this store's.
  package func authenticKeybags(_ authenticate: ([UInt8]) -> Keybag?) -> AuthenticKeybags {
    let bytes = try? read()
    let current = bytes.flatMap(authenticate)
    let previous = (try? readPrevious()).flatMap(authenticate)
    let currentOpens = if let current { opens(current) } else { false }
    let previousOpens = if let previous { opens(previous) } else { false }
    return AuthenticKeybags(
      current: current, previous: previous, currentOpens: currentOpens, previousOpens: previousOpens, bytes: bytes)
  }

  /// What is to be done before a keybag is changed, which overwrites the second copy: class keys that only that one has are
  /// taken in. That is so where a keybag was put in place from elsewhere, from another copy of the store say. `nil`, nearly
  /// always, where it has none that this one knows nothing of, or another secret opens it.
  ///
  /// - Throws: `keybagFull`.
  package func reuniting(_ opened: borrowing OpenKeybag) throws(KeyManagementError) -> KeybagChange? {
    guard let bytes = try? readPrevious(), let other = opened.sibling(bytes), opens(other),
      opened.keybag.lacking(keysOf: other).contains(where: { !opened.keybag.isRevoked($0.id) })
    else { return nil }
    do throws(KeyManagementError) {
      return try opened.adding(keysOf: opened.refreshed(other, in: self), endedToo: false)
    } catch .keybagChangedMeanwhile {
      return nil
    }
  }

  /// Puts a keybag in place that ``reuniting(_:)`` made: first as the second copy, whose keys are nowhere else until then.
  /// Where a crash comes between, the next change finds the same to do.
  ///
  /// - Throws: `keybagUnwritable`, whatever failed: nothing of what was asked for was done. `keybagChangedMeanwhile`.
  package func commit(reunion change: borrowing KeybagChange) throws(KeyManagementError) {
    let keybag = change.keybag
    var file = try writing { () throws(Errno) in try AtomicFile(replacing: Self.name, in: directory) }
    guard let current = try currentRecord(), keybag.record.follows(current) else { throw .keybagChangedMeanwhile }
    do throws(KeyManagementError) {
      try replacePrevious(with: keybag)
      try put(keybag, &file, keepingCurrent: false)
    } catch .previousKeybagKept(let error), .keybagNotDurable(let error) {
      throw .keybagUnwritable(error)
    } catch {
      throw error
    }
  }

  /// Whether a keybag is not erased, and the secret is there that belongs to it.
  package func opens(_ keybag: Keybag) -> Bool { keybag.erasureTime == nil && hasSecret(of: keybag.record) == true }

  /// Puts a keybag in place of one that cannot be opened here, is damaged or missing. Of the authentic ones there, the one
  /// that ``AuthenticKeybags/kept(beside:)`` names is the previous one then, with its secret.
  ///
  /// - Throws: `keybagUnwritable`, `keybagNotDurable`; `keybagChangedMeanwhile` where another is there now.
  package func replace(
    _ found: AuthenticKeybags, with keybag: Keybag, _ effaceable: borrowing EffaceableSecret
  ) throws(KeyManagementError) {
    var file = try writing { () throws(Errno) in try AtomicFile(replacing: Self.name, in: directory) }
    guard (try? read()) == found.bytes else { throw .keybagChangedMeanwhile }
    let kept = found.kept(beside: keybag)
    let keeping = kept?.record ?? found.bytes.flatMap { try? KeybagRecord(parsing: $0) } ?? previousRecord()
    if !effaceable.isAbsent {
      let storage = try self.effaceable()
      try writing { () throws(Errno) in
        try storage.write(effaceable, keeping: keeping?.effaceableIdentifier, of: keybag.storeID)
      }
    }
    try put(keybag, &file, keepingCurrent: kept != nil && kept == found.current)
  }

  /// Puts the previous keybag back in place. The one there becomes the previous one, if it is authentic: the two change
  /// places in one step, as neither is anywhere else.
  ///
  /// - Throws: as ``replace(_:with:_:)``.
  package func restore(_ previous: Keybag, over found: AuthenticKeybags) throws(KeyManagementError) {
    var file = try writing { () throws(Errno) in try AtomicFile(replacing: Self.name, in: directory) }
    guard (try? read()) == found.bytes, (try? readPrevious()) == previous.bytes else { throw .keybagChangedMeanwhile }
    guard found.current != nil else { return try put(previous, &file, keepingCurrent: false) }
    do throws(Errno) {
      try directory.rename(Self.previousName, to: Self.name, in: directory, flags: .exchange)
    } catch {
      guard error == .invalidArgument else { throw .keybagUnwritable(error) }
      // A file system that cannot.
      return try put(previous, &file, keepingCurrent: true)
    }
    do throws(Errno) { try directory.synchronize() } catch { throw .keybagNotDurable(error) }
  }

  private func put(
    _ keybag: Keybag, _ file: inout AtomicFile, keepingCurrent: Bool
  ) throws(KeyManagementError) {
    do throws(Errno) {
      try unsafe keybag.bytes.withBytes { (bytes) throws(Errno) in
        try unsafe file.commit(bytes, keepingPreviousAs: keepingCurrent ? Self.previousName : nil)
      }
    } catch {
      throw file.isCommitted ? .keybagNotDurable(error) : .keybagUnwritable(error)
    }
  }
}
