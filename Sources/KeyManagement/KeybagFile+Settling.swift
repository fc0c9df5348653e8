import StoreFormat

// What a change that was cut short has left, put right by whoever has the store next.
extension KeybagFile {
  /// Finishes what a change that was cut short left: an old effaceable secret, a second copy that it opens, and one that
  /// lacks new class keys. For whoever has the store alone, with the keybag that is in place, verified.
  ///
  /// - Throws: `previousKeybagKept`, `effaceableSecretKept`.
  package func settle(_ keybag: Keybag, deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) {
    if keybag.erasureTime != nil {
      if (try? readPrevious()) == keybag.bytes { try efface(keybag) } else { try finish(keybag) }
      return
    }
    // One that does not belong to the secret that is there, an old copy say, must destroy nothing.
    _ = try effaceableSecret(of: keybag)
    let previous: Keybag
    do throws(KeyManagementError) {
      previous = try Keybag(parsing: readPrevious(), deviceKey: deviceKey)
    } catch .unsupportedStore {
      return
    } catch .keybagUnreadable(let error) {
      // Whatever it is, it may have keys that are nowhere else.
      throw .previousKeybagKept(error)
    } catch .cryptography(let error) {
      throw .cryptography(error)
    } catch {
      if keybag.record.effaceableIdentifier != nil { try finish(keybag) }
      return
    }
    if keybag.extends(previous) { return try finish(keybag) }
    guard keybag.record.effaceableIdentifier != nil else { return }
    if previous.record.effaceableIdentifier == keybag.record.effaceableIdentifier { return try efface(keybag) }
    guard isPutAside(previous, for: keybag) else { return try finish(keybag) }
    // Its secret is in the slot that is not the keybag's.
    if !opens(previous) { try efface(keybag) }
  }

  /// Whether a second copy with another secret is not what the keybag was changed from, but one that an import or a
  /// restoration put aside: with keys that are nowhere else.
  private func isPutAside(_ previous: Keybag, for keybag: Keybag) -> Bool {
    !keybag.wasChanged(from: previous) && opens(previous) && !keybag.lacking(keysOf: previous).isEmpty
  }
}

extension Keybag {
  /// Whether it has all class keys of another one, wrapped as they are there, and more. So it is where a change added
  /// keys; after a reset each has keys that the other lacks.
  fileprivate func extends(_ other: Keybag) -> Bool {
    let own = record.classEntries
    let others = other.record.classEntries
    return own.count > others.count && others.allSatisfy(own.contains)
  }

  /// Whether a change of another one has made it. All of them but a reset leave a way in; an import leaves none.
  fileprivate func wasChanged(from other: Keybag) -> Bool {
    let ways = Set(other.protectors.map(\.id))
    return record.follows(other.record) && protectors.contains { ways.contains($0.id) }
  }
}
