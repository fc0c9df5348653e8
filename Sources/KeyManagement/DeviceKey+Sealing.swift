import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage
import TPM

// The device key, sealed to the machine's TPM: a file that is of no use anywhere else.
extension DeviceKey {
  /// Seals the device key of the default directory, and removes it as a plain file, which is overwritten where it lies.
  /// The sealed one is opened again before that.
  ///
  /// - Returns: where it is then, and plain files that have a store's part of it.
  /// - Throws: `deviceKeyMissing`, `trustedPlatformModule`, `deviceKeyUnreadable`.
  package static func seal() throws(KeyManagementError) -> (sealed: PathName, plainCopies: [PathName]) {
    let plain = path("device.key", in: defaultDirectory())
    let sealed = path("device.tpm", in: defaultDirectory())
    let key = try read(plain)
    let object: [UInt8]
    do throws(TPMError) {
      object = try TPM().seal(key, authorization: nil)
    } catch {
      throw .trustedPlatformModule(error)
    }
    do throws(KeyManagementError) {
      try write(SecretBytes(object), to: sealed)
    } catch {
      // One that was sealed before, and not gone on with: it is found below whether it is the same.
      guard case .deviceKeyUnreadable(_, .fileExists) = error else { throw error }
    }
    guard try unseal(sealed) == key else { throw .deviceKeyMalformed(path: sealed.description) }
    try reporting(plain) { () throws(Errno) in
      let file = try Descriptor.open(plain, [.readWrite, .noFollow])
      try unsafe [UInt8](repeating: 0, count: VolumeDeviceKey.size).withBytes { (zeros) throws(Errno) in
        try unsafe file.write(zeros, at: 0)
      }
      try file.synchronize()
      try Descriptor.open(defaultDirectory(), [.readOnly, .directory]).unlink("device.key")
    }
    return (sealed, plainCopies(of: key, in: defaultDirectory()))
  }

  /// The files `UUID.key` in a directory that hold what a device key gives for that store: who has one needs no TPM.
  static func plainCopies(of key: borrowing SecretBytes, in directory: PathName) -> [PathName] {
    guard let names = try? directory.names() else { return [] }
    var copies: [PathName] = []
    for name in names.map(\.description).sorted() where name.hasSuffix(".key") {
      guard let storeID = StoreID(name.dropLast(4)) else { continue }
      let path = path(name, in: directory)
      guard let own = try? VolumeDeviceKey(deviceKey: key, storeID: storeID), let kept = try? read(path) else {
        continue
      }
      if kept == own.secret { copies.append(path) }
    }
    return copies
  }

  /// The device key out of a sealed file.
  static func unseal(_ path: PathName) throws(KeyManagementError) -> SecretBytes {
    let file = try open(path)
    let object = try reporting(path) { () throws(Errno) in
      try file.readAll(limit: KeybagRecord.Protector.longestSealedObject + 1)
    }
    let key: SecretBytes
    do throws(TPMError) {
      key = try TPM().unseal(object, authorization: nil)
    } catch {
      throw error == .malformed ? .deviceKeyMalformed(path: path.description) : .trustedPlatformModule(error)
    }
    guard key.count == VolumeDeviceKey.size else { throw .deviceKeyMalformed(path: path.description) }
    return key
  }
}
