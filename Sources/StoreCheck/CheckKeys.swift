import Cryptography
import KeyManagement
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// The keys of a check: the volume's, and of the class keys those of class D or, after an unlock, all.
struct CheckKeys {
  let keybag: Keybag
  /// The other copy of the keybag, if it could be opened in place of this one.
  private let other: Keybag?
  let volume: VolumeKeys
  private let controller: LockController

  /// - Throws: `keybagAltered` if class D's key does not unwrap.
  init(
    keybag: Keybag, other: Keybag?, deviceKey: borrowing VolumeDeviceKey, effaceable: consuming EffaceableSecret?
  ) throws(KeyManagementError) {
    self.keybag = keybag
    self.other = other
    do throws(CryptographyError) {
      volume = try VolumeKeys(deviceKey, storeID: keybag.storeID)
    } catch {
      throw .cryptography(error)
    }
    let noneKeys: [HeldKey]
    switch consume effaceable {
    case .some(let effaceable): noneKeys = try keybag.noneClassKeys(deviceKey: deviceKey, effaceable: effaceable)
    case .none: noneKeys = []
    }
    controller = LockController(keybag: keybag, noneKeys: noneKeys)
  }

  /// Adds the keys of an unlock.
  func install(_ keys: [ProtectionClass: [HeldKey]]) {
    for (fileClass, keys) in keys { controller.install(keys, for: fileClass) }
  }

  /// Whether the other copy of the keybag has the class key that a record names.
  func otherHasKey(of record: FileRecord) -> Bool {
    other?.hasKey(of: record) ?? false
  }

  /// The result of unwrapping a file's key.
  enum FileKeyState: ~Copyable {
    case unwrapped(FileKey)
    /// The class key is not available.
    case notAtHand
    case damaged
  }

  func fileKey(of record: FileRecord) -> FileKeyState {
    do throws(Errno) {
      return .unwrapped(try controller.fileKey(of: record))
    } catch {
      return error == .ioError ? .damaged : .notAtHand
    }
  }
}
