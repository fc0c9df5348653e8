import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// What a machine has as a host of a store, in the file `UUID.host` beside the device keys: its host key, wrapped under
/// its own passcode, and the delivery key, under which the keybag has the volume's device key for it.
///
/// The host key opens the class keys that the keybag has for the host, and no other. Neither file nor passcode is of
/// use without the store, nor the store without them.
package final class HostKey: Sendable {
  package let record: HostRecord
  /// Where the file is.
  package let path: PathName
  private let delivery: SecretBytes

  private init(_ record: HostRecord, _ delivery: consuming SecretBytes, _ path: PathName) {
    self.record = record
    self.delivery = delivery
    self.path = path
  }

  private static let suffix = ".host"

  /// What this machine has as a host of a store; `nil` where it is none.
  ///
  /// - Parameter file: a device key file; one that ends in `.host` is a host's. `nil`: that of the default directory.
  /// - Throws: `deviceKeyUnreadable`, `deviceKeyExposed`, `hostFileMalformed`; `deviceKeyMissing` for a file that was
  ///   named.
  package static func find(for storeID: StoreID, file: PathName? = nil) throws(KeyManagementError) -> HostKey? {
    if let file {
      guard file.bytes.reversed().starts(with: suffix.utf8.reversed()) else { return nil }
      // A device key may have such a name.
      if (try? DeviceKey.open(file).status().size) == UInt64(VolumeDeviceKey.size) { return nil }
      return try HostKey(reading: file, storeID)
    }
    do throws(KeyManagementError) {
      return try HostKey(reading: path(for: storeID), storeID)
    } catch .deviceKeyMissing {
      return nil
    }
  }

  /// Where this machine's file for a store is by default.
  package static func path(for storeID: StoreID) -> PathName {
    DeviceKey.path("\(storeID)\(suffix)", in: DeviceKey.defaultDirectory())
  }

  /// Makes this machine one that may become a host: gives it a host key of its own under a passcode.
  ///
  /// - Parameters:
  ///   - classes: what it asks for.
  ///   - file: where to keep the host's file; `nil` for the default directory.
  ///   - cost: of trying the passcode; `nil` for one that is calibrated.
  /// - Throws: `invalidPasscode`, `invalidLabel`, `tooLittleMemory`; `deviceKeyUnreadable` with `EEXIST` where the
  ///   machine has such a file already.
  package static func create(
    for storeID: StoreID, label: String, classes: [ProtectionClass], passcode: borrowing SecretBytes,
    file: PathName? = nil, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) -> NewHost {
    guard (1...KeybagRecord.Protector.longestLabel).contains(label.utf8.count) else { throw .invalidLabel }
    try Keybag.require(passcode: passcode)
    let stretched = try PasscodeKey.stretch(new: passcode, cost: cost)
    let path = file ?? path(for: storeID)
    let made = try KeyManagementError.wrapping { () throws(CryptographyError) in
      let hostKey = try SecretBytes(randomCount: HeldKey.size)
      let code = try PairingCode()
      let delivery = try code.deliveryKey(of: storeID)
      let record = HostRecord(
        storeID: storeID, id: try randomBytes(16), derivation: stretched.derivation,
        wrappedKey: try KeyWrap.wrap(hostKey, under: passcodeKey(stretched.secret, delivery, storeID)))
      let request = try HostRequestRecord(
        storeID: storeID, id: record.id, label: label, classes: classes, hostKey: hostKey, code)
      return NewHost(host: HostKey(record, delivery, path), request: request, code: code)
    }
    try DeviceKey.write(made.host.bytes, to: path)
    return made
  }

  /// Removes this machine's file for a store, whose request was never made.
  package static func forget(of storeID: StoreID, file: PathName? = nil) throws(Errno) {
    try Descriptor.open(".", [.path, .directory]).unlink(file ?? path(for: storeID))
  }

  /// The volume's device key, as a keybag has it for this host. The keybag is verified with it.
  ///
  /// - Throws: `hostUnknown` where the keybag has none, or one for whom else; `storeErased`.
  package func volumeDeviceKey(in keybag: KeybagRecord) throws(KeyManagementError) -> VolumeDeviceKey {
    if let time = keybag.erasureTime { throw .storeErased(at: time) }
    guard let host = keybag.host(record.id)?.host else { throw .hostUnknown }
    do throws(CryptographyError) {
      return try VolumeDeviceKey(KeyWrap.unwrap(host.wrappedVolumeKey, under: delivery), host: self)
    } catch {
      throw error == .wrongKey ? .hostUnknown : KeyManagementError(error)
    }
  }

  /// The host key, as a passcode gives it; `nil` for a wrong one. The passcode may have been changed since this was
  /// read, by a command.
  func open(
    _ passcode: borrowing SecretBytes, _ fingerprint: inout UInt16?
  ) throws(KeyManagementError) -> SecretBytes? {
    try Keybag.require(passcode: passcode)
    let record = try current()
    try PasscodeKey.requireMemory(for: record.derivation.cost)
    do throws(CryptographyError) {
      let key = try Self.passcodeKey(
        PasscodeKey.stretch(passcode, record.derivation), delivery, record.storeID)
      fingerprint = try PasscodeKey.fingerprint(of: key)
      return try KeyWrap.unwrap(record.wrappedKey, under: key)
    } catch {
      if error == .wrongKey { return nil }
      throw KeyManagementError(error)
    }
  }

  /// The record as it is in the file now; the known one where that cannot be read.
  private func current() throws(KeyManagementError) -> HostRecord {
    do throws(KeyManagementError) {
      let now = try HostKey(reading: path, record.storeID).record
      guard now.id == record.id else { throw .hostUnknown }
      return now
    } catch {
      if error == .hostUnknown { throw error }
      return record
    }
  }

  private static func passcodeKey(
    _ stretched: borrowing SecretBytes, _ delivery: borrowing SecretBytes, _ storeID: StoreID
  ) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(
      ikm: SecretBytes(stretched, followedBy: delivery), salt: storeID.bytes, info: "protectfs host passcode key",
      count: 32)
  }

  // MARK: The file

  private convenience init(reading path: PathName, _ storeID: StoreID) throws(KeyManagementError) {
    let file = try DeviceKey.open(path)
    let count = HostRecord.size + VolumeDeviceKey.size
    // One byte more than there may be, to find out whether there is more.
    var bytes = SecretBytes(count: count + 1)
    let length = try DeviceKey.reporting(path) { () throws(Errno) in
      try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in try unsafe file.read(into: buffer, at: 0) }
    }
    guard length == count else { throw .hostFileMalformed(path: path.description) }
    let head = unsafe bytes.withBytes { unsafe Array($0[..<HostRecord.size]) }
    guard let record = try? HostRecord(parsing: head), record.storeID == storeID else {
      throw .hostFileMalformed(path: path.description)
    }
    let delivery = unsafe bytes.withBytes { bytes in
      unsafe SecretBytes(copying: UnsafeRawBufferPointer(rebasing: bytes[HostRecord.size..<count]))
    }
    self.init(record, delivery, path)
  }

  /// What the file has.
  private var bytes: SecretBytes { SecretBytes(SecretBytes(record.bytes), followedBy: delivery) }
}

/// A machine that is to ask for becoming a host.
package struct NewHost: ~Copyable, Sendable {
  fileprivate let host: HostKey
  /// What it puts into the store.
  package let request: HostRequestRecord
  /// What whoever accepts it must have.
  package let code: PairingCode
}

extension OpenKeybag {
  /// Gives the host that opened this keybag another passcode. The keybag stays as it is.
  ///
  /// - Parameter cost: of trying it; `nil` for one that is calibrated.
  /// - Throws: `hostPasscodeNeeded` where something else opened it; `invalidPasscode`, `tooLittleMemory`,
  ///   `deviceKeyUnreadable`.
  package func changeHostPasscode(
    to new: borrowing SecretBytes, cost: ScryptParameters? = nil
  ) throws(KeyManagementError) {
    guard keys.host != nil, let host = keys.deviceKey.host else { throw .hostPasscodeNeeded }
    try host.replace(passcode: new, of: keys.keybagKey, cost: cost)
  }
}

extension HostKey {
  fileprivate func replace(
    passcode: borrowing SecretBytes, of hostKey: borrowing SecretBytes, cost: ScryptParameters?
  ) throws(KeyManagementError) {
    try Keybag.require(passcode: passcode)
    let stretched = try PasscodeKey.stretch(new: passcode, cost: cost)
    var changed = record
    changed.derivation = stretched.derivation
    changed.wrappedKey = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try KeyWrap.wrap(hostKey, under: Self.passcodeKey(stretched.secret, delivery, record.storeID))
    }
    try DeviceKey.write(HostKey(changed, delivery.copy(), path).bytes, to: path, mayReplace: true)
  }
}
