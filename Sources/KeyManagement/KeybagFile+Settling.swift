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
    // One that an import or a restoration put aside, or that was left when another keybag was put in place from elsewhere.
    if keybag.hasOrEnded(keysOf: previous) { try finish(keybag) }
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

  /// Whether each class key of another one is in it, or was rotated away or erased by it: so that nothing is lost with the
  /// other one. Those that a reset gave up may be wanted back.
  package func hasOrEnded(keysOf other: Keybag) -> Bool {
    let ended = Set(record.formerKeys.filter { $0.end != .reset }.map(\.id))
    return lacking(keysOf: other).allSatisfy { ended.contains($0.id) }
  }
}
