import Contents
import Cryptography
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// A check of a store, and its repair.
///
/// The caller must lock the store: exclusively for a repair; otherwise the lock may be shared with readers.
package enum StoreCheck {
  /// Opens a keybag and returns its class keys.
  package typealias Unlock = (
    borrowing KeybagFile, Keybag, borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> [ProtectionClass: [HeldKey]]

  /// What a check does besides looking at the records of everything.
  package struct Options: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// It reads the contents of files whose keys are at hand.
    package static let contents = Options(rawValue: 1)
    /// It repairs what can be repaired without losing content.
    package static let repairs = Options(rawValue: 2)
    /// A repair takes files as long as they are whose keys are at hand.
    package static let acceptsLengths = Options(rawValue: 4)
  }

  /// Checks everything in a store.
  ///
  /// - Parameters:
  ///   - keybag: one of `copies`, verified with `deviceKey`.
  ///   - unlock: returns the class keys, with which the keys of files are checked too. Without it, only the keys of
  ///     class D are.
  /// - Throws: `KeyManagementError` if the keys are not available, `Errno` if the root or `lost+found` cannot be used.
  package static func run(
    _ backing: borrowing Descriptor, copies: KeybagCopies, keybag: Keybag, deviceKey: borrowing VolumeDeviceKey,
    unlock: Unlock? = nil, options: Options = [], observer: any CheckObserver
  ) throws -> CheckSummary {
    let store = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
    // If someone has put the keybag of another store here, everything looks altered under its keys. Then nothing is
    // changed.
    let mayRepair =
      try options.contains(.repairs) && hasRoot(backing, VolumeKeys(deviceKey, storeID: keybag.storeID))
    let repair = mayRepair ? try Repair(store: store) : nil
    let findings = Findings(observer: observer, repair: repair)
    let targets = try LongSymlinkFiles(store: store)
    let file = try KeybagFile(backing: backing, host: deviceKey.host)
    let keys = try CheckKeys(
      keybag: keybag, other: copies.other(than: keybag, in: file, deviceKey: deviceKey), deviceKey: deviceKey,
      effaceable: try effaceableSecret(of: keybag, file, findings))
    do throws(KeyManagementError) {
      if let unlock { keys.install(try unlock(file, keybag, deviceKey)) }
    } catch .keybagAltered {
      findings.report(.keybagSealWrong, at: .ofStore("keybag"))
    } catch .effaceableSecretMissing {
      // This has been reported already.
    }
    let batches = options.contains(.contents) ? Self.batches(in: store, keys, findings) : []
    try KeybagCheck(
      copies: copies, store: SharedDescriptor(store), findings: findings, keybag: keybag,
      mayReplace: mayReplaceKeybag(by: keybag, file, isHost: deviceKey.isOfHost)
    ).run { (bytes) throws(KeyManagementError) in try Keybag(parsing: bytes, deviceKey: deviceKey) }
    try TreeCheck(
      backing, keys: keys, findings: findings, targets: targets, batches: batches,
      layout: ContentsLayout(of: keybag.record, in: backing), options: options
    ).run()
    targets.checkOrphans(findings)
    try repair?.finish()
    return findings.summary
  }

  /// The batches of rekeys in progress; `nil` where they cannot be read, and contents of files with a pending rekey
  /// neither.
  private static func batches(
    in store: borrowing Descriptor, _ keys: CheckKeys, _ findings: Findings
  ) -> [RekeyBatch]? {
    do throws(Errno) { return try keys.volume.rekeyBatches(in: store) } catch {
      findings.report(.unreadable, at: .ofStore("rekey"), "\(error)")
      return nil
    }
  }

  /// Whether a keybag may take the place of the one that is there: it opens the store, and this is no host, which an
  /// older one may have keys for that the one in place has not.
  private static func mayReplaceKeybag(by keybag: Keybag, _ file: borrowing KeybagFile, isHost: Bool) -> Bool {
    if isHost { return false }
    return file.hasSecret(of: keybag.record) != false
  }

  /// Whether the root's record is authentic under these keys, or missing or malformed.
  private static func hasRoot(_ backing: borrowing Descriptor, _ volume: VolumeKeys) -> Bool {
    guard let bytes = try? backing.attribute(PathName(DirectoryRecord.attributeName)),
      let record = try? DirectoryRecord(parsing: bytes)
    else { return true }
    return (try? volume.isAuthentic(record)) == true
  }

  /// The effaceable secret, after a check of its two copies. Without it names are still checked, but keys are not.
  private static func effaceableSecret(
    of keybag: Keybag, _ file: borrowing KeybagFile, _ findings: Findings
  ) throws -> EffaceableSecret? {
    let place = Place.ofStore("effaceable")
    do throws(KeyManagementError) {
      let secret = try file.effaceableSecret(of: keybag)
      if try !file.hasBothEffaceableCopies(of: keybag) {
        findings.report(.effaceableCopyDamaged, at: place) { (_) throws(Errno) in
          try file.restoreEffaceableCopies(of: keybag)
          return .fixed
        }
      }
      return secret
    } catch .effaceableSecretMissing {
      findings.report(.effaceableSecretMissing, at: place)
    }
    return nil
  }
}
