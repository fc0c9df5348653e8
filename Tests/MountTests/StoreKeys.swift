import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

@testable import KeyManagement

/// The keys of a store, obtained like the daemon does: from its files and the recovery key.
struct StoreKeys {
  private(set) var classKeys: [ProtectionClass: [UInt8]] = [:]
  let keybagKey: [UInt8]
  /// The effaceable secret, and the key derived from it and the keybag key.
  let effaceable: [UInt8]
  private let publicKeys: [ClassKeyID: [UInt8]]

  init(of volume: Volume) throws {
    let opened = try volume.openKeybag()
    publicKeys = opened.keybag.publicKeys
    keybagKey = opened.keys.keybagKey.bytes
    effaceable =
      try opened.keys.effaceable.secret.bytes
      + opened.keys.effaceable.wrappingKey(with: opened.keys.keybagKey, of: opened.keybag.storeID).bytes
    for (fileClass, keys) in try opened.heldKeys() { classKeys[fileClass] = keys[0].secret.bytes }
  }

  /// The key of a file on the mount, and the keys derived from it.
  func fileKeys(of path: PathName, on volume: Volume) throws -> [UInt8] {
    let record = try FileRecord(
      parsing: volume.backingFile(of: path).extendedAttribute(PathName(FileRecord.attributeName)), length: 0)
    let classKey = SecretBytes(classKeys[record.fileClass] ?? [])
    let key =
      record.fileClass == .completeUnlessOpen
      ? try OnePassDiffieHellman.unwrap(
        record.wrappedKey, privateKey: classKey, publicKey: publicKeys[record.classKeyID] ?? [])
      : try KeyWrap.unwrap(record.wrappedKey, under: classKey)
    let contents = try KeyDerivation.counterMode(key: key, label: "protectfs xts", count: XTSCipher.keySize)
    let attributes = try KeyDerivation.counterMode(key: key, label: "protectfs attribute", count: 64)
    let pages = try KeyDerivation.counterMode(key: key, label: "protectfs pages", count: PageCipher.keySize)
    return key.bytes + contents.bytes + attributes.bytes + pages.bytes
  }
}

extension SecretBytes {
  /// A copy, for tests, whose secrets are not secret.
  var bytes: [UInt8] { unsafe withBytes { unsafe Array($0) } }
}

extension Volume {
  /// The store's keybag file.
  func keybagFile() throws -> KeybagFile {
    try KeybagFile(backing: Descriptor.open(backing, [.readOnly, .directory]))
  }

  /// The volume device key of the store.
  func volumeDeviceKey() throws -> VolumeDeviceKey {
    try DeviceKey.load(for: KeybagRecord(parsing: keybagFile().read()).storeID, file: deviceKey)
  }

  /// The store's keybag, opened while others may use the store.
  ///
  /// - Parameter passcode: `nil` for the recovery key, which takes no scrypt.
  func openKeybag(passcode: String? = nil) throws -> OpenKeybag {
    let deviceKey = try volumeDeviceKey()
    let file = try keybagFile()
    let secret: UnlockSecret =
      if let passcode {
        .passcode(SecretBytes(Array(passcode.utf8)))
      } else {
        .recoveryKey(SecretBytes(Array(recoveryKey.utf8)))
      }
    return try file.open(
      Keybag(parsing: file.read(), deviceKey: deviceKey), with: secret, deviceKey: deviceKey)
  }

  /// Why a passcode does not yield the keys of all classes; `nil` if it does.
  ///
  /// - Parameter passcode: `nil` for the recovery key, which opens what the passcode opens, without scrypt.
  func refusal(of passcode: String? = Volume.passcode) -> KeyManagementError? {
    do {
      _ = try openKeybag(passcode: passcode).heldKeys()
      return nil
    } catch {
      return error as? KeyManagementError ?? .keybagMissing
    }
  }

  /// Finishes what a crash has left of a change of keys, as the next mount does.
  func repair() throws {
    let file = try keybagFile()
    let deviceKey = try volumeDeviceKey()
    try file.repair(Keybag(parsing: file.read(), deviceKey: deviceKey), deviceKey: deviceKey)
  }

  /// Makes the keybag one without an effaceable secret, like those of the first version.
  func removeEffaceableSecret() throws {
    let opened = try openKeybag()
    let keys = opened.keys.with(.absent())
    var record = opened.keybag.record
    record.classEntries = try keys.rewrapped(record.classEntries, from: opened.keys)
    let keybag = try keys.keybag(of: record)
    try putBack(["keybag": keybag.bytes, "keybag.previous": keybag.bytes])
  }

  /// The backing file of a file on the mount: the one with the same inode number.
  func backingFile(of path: PathName) throws(Errno) -> PathName {
    let inode = try path.status().inode
    var directories = [backing]
    while let directory = directories.popLast() {
      for name in try directory.names() {
        let file = directory.appending(bytes: Array(name.bytes))
        let status = try file.status()
        if status.inode == inode { return file }
        if status.mode & 0o170000 == 0o040000 { directories.append(file) }
      }
    }
    throw .noSuchFileOrDirectory
  }
}
