import Cryptography
import KeyManagement
import LinuxIO
import StoreFormat
import SystemPackage

/// A check of a store, and its repair.
///
/// The store must be locked by the caller: alone for a repair, else it may be shared with those who only read.
package enum StoreCheck {
  /// How the class keys are had, with which the keys of files are checked too.
  package enum Unlock: ~Copyable {
    /// Not at all: of the keys, only those of class D are checked.
    case none
    case passcode(SecretBytes)
    case recoveryKey(RecoveryKey)
  }

  /// Checks everything in a store.
  ///
  /// - Parameters:
  ///   - keybag: one of `copies`, which `deviceKey` verified.
  ///   - isRepairing: whether to put right what can be put right without losing content.
  /// - Throws: `KeyManagementError` when the keys cannot be had, `Errno` when the root or `lost+found` cannot be used.
  package static func run(
    _ backing: borrowing Descriptor, copies: KeybagCopies, keybag: Keybag, deviceKey: borrowing VolumeDeviceKey,
    unlock: consuming Unlock = .none, isRepairing: Bool, observer: any CheckObserver
  ) throws -> CheckSummary {
    let store = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
    let repair = isRepairing ? try Repair(store: store) : nil
    let findings = Findings(observer: observer, repair: repair)
    let targets = try TargetFiles(store: store)
    let keys = try CheckKeys(keybag: keybag, deviceKey: deviceKey)
    do throws(KeyManagementError) {
      switch consume unlock {
      case .none: break
      case .passcode(let passcode): keys.install(try keybag.unlock(passcode: passcode, deviceKey: deviceKey))
      case .recoveryKey(let key): keys.install(try keybag.unlock(recoveryKey: key))
      }
    } catch .keybagAltered {
      findings.report(.keybagSealWrong, at: .ofStore("keybag"))
    }
    try KeybagCheck(
      copies: copies, store: SharedDescriptor(store), findings: findings, keybag: keybag
    ).run { (bytes) throws(KeyManagementError) in try Keybag(parsing: bytes, deviceKey: deviceKey) }
    try TreeCheck(backing, keys: keys, findings: findings, targets: targets).run()
    targets.checkOrphans(findings)
    try repair?.finish()
    return findings.summary
  }
}
