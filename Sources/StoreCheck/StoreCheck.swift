import Cryptography
import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage

/// A check of a store, and its repair.
///
/// The store must be locked by the caller: alone for a repair, else it may be shared with those who only read.
package enum StoreCheck {
  /// Opens a keybag in its place.
  package typealias Unlock = (
    borrowing KeybagFile, Keybag, borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> ClassKeys

  /// Checks everything in a store.
  ///
  /// - Parameters:
  ///   - keybag: one of `copies`, which `deviceKey` verified.
  ///   - unlock: yields the class keys, with which the keys of files are checked too; without it, of the keys only those
  ///     of class D are.
  ///   - isRepairing: whether to put right what can be put right without losing content.
  /// - Throws: `KeyManagementError` when the keys cannot be had, `Errno` when the root or `lost+found` cannot be used.
  package static func run(
    _ backing: borrowing Descriptor, copies: KeybagCopies, keybag: Keybag, deviceKey: borrowing VolumeDeviceKey,
    unlock: Unlock? = nil, isRepairing: Bool, observer: any CheckObserver
  ) throws -> CheckSummary {
    let store = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
    // Under the keys of another store, whose keybag somebody has put here, all looks altered: then nothing is touched.
    let mayRepair = try isRepairing ? hasRoot(backing, VolumeKeys(deviceKey, storeID: keybag.storeID)) : false
    let repair = mayRepair ? try Repair(store: store) : nil
    let findings = Findings(observer: observer, repair: repair)
    let targets = try TargetFiles(store: store)
    let file = try KeybagFile(backing: backing)
    let keys = try CheckKeys(
      keybag: keybag, other: copies.other(than: keybag, in: file, deviceKey: deviceKey), deviceKey: deviceKey,
      effaceable: try effaceableSecret(of: keybag, file, findings))
    do throws(KeyManagementError) {
      if let unlock { keys.install(try unlock(file, keybag, deviceKey)) }
    } catch .keybagAltered {
      findings.report(.keybagSealWrong, at: .ofStore("keybag"))
    } catch .effaceableSecretMissing {
      // That is told already.
    }
    try KeybagCheck(
      copies: copies, store: SharedDescriptor(store), findings: findings, keybag: keybag,
      mayReplace: file.hasSecret(of: keybag.record) != false
    ).run { (bytes) throws(KeyManagementError) in try Keybag(parsing: bytes, deviceKey: deviceKey) }
    try TreeCheck(backing, keys: keys, findings: findings, targets: targets).run()
    targets.checkOrphans(findings)
    try repair?.finish()
    return findings.summary
  }

  /// Whether the root's record is under these keys, or cannot tell.
  private static func hasRoot(_ backing: borrowing Descriptor, _ volume: VolumeKeys) -> Bool {
    guard let bytes = try? backing.attribute(PathName(DirectoryRecord.attributeName)),
      let record = try? DirectoryRecord(parsing: bytes)
    else { return true }
    return (try? volume.isAuthentic(record)) == true
  }

  /// The secret, its two copies checked. Without it names are still checked, and keys are not.
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
