import ProtectfsIO
import StoreFormat
import SystemPackage

// What changes that were cut short have left, put right by whoever has the store next.
extension KeybagFile {
  /// Finishes what a change that was cut short left. For whoever has the store alone, with the keybag that is in place,
  /// verified. It follows the table under "Keybag changes" in ARCHITECTURE.md.
  ///
  /// - Throws: `previousKeybagKept`, `effaceableSecretKept`; `effaceableSecretMissing`, `keybagInUse`, with nothing
  ///   done.
  package func repair(_ keybag: Keybag, deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) {
    if keybag.erasureTime != nil { return try repairErasure(keybag, deviceKey) }
    // Nobody changes what is looked at here.
    let lock = try writing { () throws(Errno) in try lockBoth() }
    try repairAlone(keybag, deviceKey)
    _ = consume lock
  }

  private func repairAlone(_ keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) {
    do throws(KeyManagementError) {
      try finishRestoration()
    } catch {
      if case .keybagUnreadable(let error) = error { throw .previousKeybagKept(error) }
      throw error
    }
    // One that does not belong to the secret that is there, an old copy say, must destroy nothing.
    _ = try effaceableSecret(of: keybag)
    let repair: KeybagRepair
    do throws(KeyManagementError) {
      repair = KeybagRepair(of: try secondCopy(of: keybag.storeID, deviceKey), beside: keybag)
    } catch {
      switch error {
      case .unsupportedStore: return
      case .keybagUnreadable(let error): throw .previousKeybagKept(error)
      default: throw error
      }
    }
    guard repair != .nothing, try isInPlace(keybag) else { return }
    if repair == .copy { try replacePrevious(with: keybag) }
    try efface(keybag)
  }

  /// Finishes an erasure whose tombstone is in place, or noted in the second copy.
  private func repairErasure(
    _ tombstone: Keybag, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) {
    let current = try Keybag(parsing: read(), deviceKey: deviceKey)
    guard current == tombstone || self.tombstone(of: current, deviceKey) == tombstone else { return }
    if let failure = try erase(tombstone, deviceKey: deviceKey).failure { throw failure }
  }

  /// Puts the second copy back in its place, where a restoration has taken it from there and was cut short (see
  /// ``restore(_:over:)``). For whoever has the store alone, before it reads the second copy.
  ///
  /// - Throws: `keybagUnreadable` where it cannot be told whether there is such a copy; `keybagUnwritable`.
  package func finishRestoration() throws(KeyManagementError) {
    guard let aside = try readIfThere(Self.previousAsideName), (try? KeybagRecord(parsing: aside)) != nil,
      let keybag = try readIfThere(Self.name), keybag == (try readIfThere(Self.previousName)), keybag != aside,
      let record = try? KeybagRecord(parsing: keybag), record.erasureTime == nil
    else { return }
    try writing { () throws(Errno) in
      try directory.rename(Self.previousAsideName, to: Self.previousName, in: directory, flags: [])
      try directory.synchronize()
    }
  }
}

extension KeybagFile {
  /// The bytes under a name; `nil` where there is no regular file of that name.
  func readIfThere(_ name: PathName) throws(KeyManagementError) -> [UInt8]? {
    do throws(KeyManagementError) {
      return try read(name)
    } catch {
      switch error {
      case .keybagMissing, .keybagUnreadable(.invalidArgument), .keybagUnreadable(.tooManySymbolicLinkLevels):
        return nil
      default: throw error
      }
    }
  }
}

/// What is to be done about a second copy that can be read.
enum KeybagRepair {
  /// It stays, and so does its secret.
  case nothing
  /// It stays, and all secrets except the one that both have are overwritten.
  case efface
  /// It becomes a copy of the keybag; all other secrets are overwritten.
  case copy

  /// - Parameter previous: the second copy; `nil` where it is missing or damaged.
  init(of previous: Keybag?, beside keybag: Keybag) {
    let hasSecret = keybag.record.effaceableIdentifier != nil
    self =
      if let previous {
        if keybag.extends(previous) {
          // A change was cut short that added keys.
          .copy
        } else if !hasSecret {
          .nothing
        } else if previous.record.effaceableIdentifier == keybag.record.effaceableIdentifier {
          .efface
        } else if keybag.hasOrEnded(keysOf: previous) {
          // One was cut short that retired something, or what it had put aside is of no more use.
          .copy
        } else {
          // An import or a restoration has put it aside, it undoes a reset, or the keybag was put in place from
          // elsewhere.
          .nothing
        }
      } else {
        hasSecret ? .copy : .nothing
      }
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

  /// Whether each class key of another one is in it, or was rotated away or erased by it: so that nothing is lost with
  /// the other one. Those that a reset gave up may be wanted back.
  package func hasOrEnded(keysOf other: Keybag) -> Bool {
    let ended = Set(record.formerKeys.filter { $0.end != .reset }.map(\.id))
    return lacking(keysOf: other).allSatisfy { ended.contains($0.id) }
  }
}
