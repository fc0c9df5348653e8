import Cryptography
import Glibc
import LinuxIO
import StoreFormat
import SystemPackage

// Secrets tried on the keybag in its place: wrong passcodes are counted, across processes, and delay the next.
extension KeybagFile {
  private static let attemptsName: PathName = "attempts"

  /// Opens a keybag that was read here. A right secret ends the count of wrong passcodes; a recovery key and a key file
  /// are never delayed, since they cannot be guessed.
  ///
  /// - Parameter known: the wrong passcodes that could not be written to the store, and so only the caller knows of;
  ///   brought up to date.
  /// - Throws: `storeErased`; `passcodeDelayed`, without having tried it; `wrongPasscode`, `wrongRecoveryKey`,
  ///   `wrongKeyFile`; `effaceableSecretMissing`; `keybagAltered`.
  package func open(
    _ keybag: Keybag, with secret: borrowing UnlockSecret, deviceKey: borrowing VolumeDeviceKey,
    known: inout PasscodeAttempts
  ) throws(KeyManagementError) -> OpenKeybag {
    if let time = keybag.erasureTime { throw .storeErased(at: time) }
    let stored = try attempts(keybag, deviceKey)
    var attempts = known.count > stored.count ? known : stored
    if secret.kind == .passcode || secret.kind == .tpmPasscode {
      let delay = attempts.delay(at: Self.now())
      guard delay == 0 else { throw .passcodeDelayed(seconds: delay) }
    }
    var fingerprint: UInt16 = 0
    let opened = try keybag.attempt(
      secret, deviceKey: deviceKey, effaceable: effaceableSecret(of: keybag), &fingerprint)
    guard let opened else {
      attempts.note(fingerprint, at: Self.now())
      let isWritten = attempts == stored || write(attempts, keybag, deviceKey)
      known = isWritten ? PasscodeAttempts() : attempts
      if let limit = keybag.record.eraseAfter, attempts.count >= UInt32(limit) {
        try commit(keybag.erased(deviceKey: deviceKey))
        try? directory.unlink(Self.attemptsName)
        throw .storeErased(at: Self.now())
      }
      throw .wrongPasscode
    }
    known = PasscodeAttempts()
    if stored.count > 0 { try? directory.unlink(Self.attemptsName) }
    return opened
  }

  /// Opens a keybag in a process that tries one secret.
  package func open(
    _ keybag: Keybag, with secret: borrowing UnlockSecret, deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> OpenKeybag {
    var known = PasscodeAttempts()
    return try open(keybag, with: secret, deviceKey: deviceKey, known: &known)
  }

  /// The wrong passcodes of this and other processes. A file that is damaged counts as none: who could damage it could
  /// as well remove it, or try passcodes on a copy of the store.
  package func attempts(
    _ keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> PasscodeAttempts {
    guard let bytes = try? read(Self.attemptsName, limit: AttemptsRecord.longest + 1),
      let record = try? AttemptsRecord(parsing: bytes)
    else { return PasscodeAttempts() }
    let tag = try Self.tag(of: record, keybag, deviceKey)
    return isEqualInConstantTime(tag, record.tag) ? PasscodeAttempts(record) : PasscodeAttempts()
  }

  /// Returns whether it could be written; else the caller's own count must do.
  private func write(
    _ attempts: PasscodeAttempts, _ keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey
  ) -> Bool {
    guard var record = attempts.record, let tag = try? Self.tag(of: record, keybag, deviceKey) else { return false }
    record.tag = tag
    let bytes = record.bytes
    do throws(Errno) {
      var file = try AtomicFile(replacing: Self.attemptsName, in: directory)
      try unsafe bytes.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
      return true
    } catch {
      return false
    }
  }

  private static func tag(
    of record: AttemptsRecord, _ keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> [UInt8] {
    try KeyManagementError.wrapping { () throws(CryptographyError) in
      try RecordAuthenticator(key: deviceKey.key(for: .attempts, of: keybag.storeID)).code("", record.bytesBeforeTag)
    }
  }

  private static func now() -> UInt64 { UInt64(max(time(nil), 0)) }
}
