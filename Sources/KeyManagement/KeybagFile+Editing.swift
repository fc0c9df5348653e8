import ProtectfsPolicy
import StoreFormat

/// What an edit has made of a keybag that is in place now.
package struct AppliedEdit: ~Copyable {
  package let opened: OpenKeybag
  /// All class keys, for whoever holds them in memory.
  package let keys: [ProtectionClass: [HeldKey]]
  /// What failed after the keybag was in its place; a mount of the store repairs it.
  package let failure: KeyManagementError?

  package var keybag: Keybag { opened.keybag }

  /// The opened keybag alone.
  package consuming func takeOpened() -> OpenKeybag { opened }
}

// The editor of keybags.
extension KeybagFile {
  /// Changes the keybag in place. That overwrites the second copy, so class keys that only that one has are taken in
  /// first: it has some where a keybag was put in place from elsewhere, from another copy of the store say.
  ///
  /// Whatever is refused is refused before anything is written, and nothing is put in place whose keys do not unwrap.
  /// - Throws: what the edit fails with, `keybagUnwritable`, `keybagChangedMeanwhile`; `unsupportedStore` for a second
  ///   copy that needs a newer program; after new class keys also what fails when the keybag is in its place: whoever
  ///   goes on does so without them, since a power cut may take them back.
  package func apply(
    _ edit: borrowing KeybagEdit, to opened: borrowing OpenKeybag
  ) throws(KeyManagementError) -> AppliedEdit {
    guard !opened.isOfHost else { throw .hostsChangeNothing }
    let applied = try put(edit, into: opened)
    if let id = edit.removedProtector {
      try? directory.unlink(Self.attemptsName(ofHost: id))
      HostLocks.forget(id, in: directory)
    }
    return applied
  }

  private func put(
    _ edit: borrowing KeybagEdit, into opened: borrowing OpenKeybag
  ) throws(KeyManagementError) -> AppliedEdit {
    let erased = edit.erasedClass
    guard let other = try keybagWithMore(than: opened, isErasing: erased != nil) else {
      return try commit(opened.changed(by: edit), of: opened)
    }
    let union: KeybagChange
    do throws(KeyManagementError) {
      union = try opened.united(with: other)
    } catch {
      guard error == .keybagFull, let erased else { throw error }
      return try erase(erased, in: opened, beside: other)
    }
    let united = opened.following(union)
    let change = try united.changed(by: edit)
    _ = try commit(union, of: opened)
    return try commit(change, of: united)
  }

  /// Takes in the class keys that only the second copy has, and does nothing else; `nil` where there are none.
  package func unite(_ opened: borrowing OpenKeybag) throws(KeyManagementError) -> AppliedEdit? {
    guard let other = try keybagWithMore(than: opened, isErasing: false) else { return nil }
    return try commit(opened.united(with: other), of: opened)
  }

  private func commit(
    _ change: borrowing KeybagChange, of opened: borrowing OpenKeybag
  ) throws(KeyManagementError) -> AppliedEdit {
    let after = opened.following(change)
    let keys = try after.heldKeys(of: ProtectionClass.allCases)
    var failure: KeyManagementError?
    do throws(KeyManagementError) {
      try commit(change)
    } catch {
      // Nothing of what was asked for was done.
      if change.steps == .union, case .keybagNotDurable(let error) = error { throw .keybagUnwritable(error) }
      guard error.isAfterChange, change.steps != .newKeys else { throw error }
      failure = error
    }
    return AppliedEdit(opened: after, keys: keys, failure: failure)
  }

  /// The second copy, opened, where it has class keys that a keybag neither has nor remembers; `nil`, nearly always,
  /// where it has none, or another secret opens it, as after a reset.
  ///
  /// - Throws: where it cannot be read now, or not by this program: it may have some. An erasure waits for neither.
  private func keybagWithMore(
    than opened: borrowing OpenKeybag, isErasing: Bool
  ) throws(KeyManagementError) -> OpenKeybag? {
    do throws(KeyManagementError) {
      if !isErasing { try finishRestoration() }
      guard let other = try secondCopy(of: opened.keybag.storeID, opened.keys.deviceKey), other.erasureTime == nil,
        opened.keybag.lacking(keysOf: other).contains(where: { !opened.keybag.isRetired($0.id) })
      else { return nil }
      return try opened.refreshed(other, in: self)
    } catch {
      switch error {
      // Nothing in it could be opened here.
      case .keybagChangedMeanwhile, .effaceableSecretMissing: return nil
      case .keybagUnreadable, .unsupportedStore: if isErasing { return nil }
      default: break
      }
      if case .keybagUnreadable(let error) = error { throw .keybagUnwritable(error) }
      throw error
    }
  }

  /// Erases a class in a keybag and in the second copy, whose keys do not fit into one: those of other classes stay
  /// where they are.
  private func erase(
    _ fileClass: ProtectionClass, in opened: borrowing OpenKeybag, beside other: borrowing OpenKeybag
  ) throws(KeyManagementError) -> AppliedEdit {
    // Under one secret, so that there is a free slot for the next.
    var record = other.keybag.record
    // No key is wrapped for a host that is none any more.
    record.protectors = opened.keybag.protectors
    record.classEntries = try opened.keys.rewrapped(record.classEntries, from: other.keys)
    let moved = try opened.keys.keybag(of: record)
    let change = try opened.erasing(fileClass, .random())
    let after = opened.following(change)
    record.end(.erased) { $0.fileClass == fileClass }
    record.classEntries = try after.keys.rewrapped(record.classEntries, from: opened.keys)
    for entry in change.keybag.record.classEntries where entry.fileClass == fileClass { record.insert(entry) }
    let second = try after.keys.keybag(of: record)
    if moved != other.keybag {
      try commit(
        KeybagChange(opened.keybag, secret: .absent(), over: .keybag(opened.keybag), [.replaceSecond], second: moved))
    }
    return try commit(
      KeybagChange(
        change.keybag, secret: change.secret.copy(), over: .keybag(opened.keybag), .retirementInBoth, second: second),
      of: opened)
  }
}

extension OpenKeybag {
  /// The keybag with the class keys of another one that it neither has nor remembers.
  func united(with other: borrowing OpenKeybag) throws(KeyManagementError) -> KeybagChange {
    try adding(keysOf: other, .union) { !keybag.isRetired($0) }
  }
}
