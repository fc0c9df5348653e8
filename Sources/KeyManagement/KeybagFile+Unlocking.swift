import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

// Secrets tried on the keybag in its place: wrong passcodes are counted, across processes, and delay the next.
extension KeybagFile {
  /// Opens a keybag that was read here. A right secret ends the count of wrong passcodes; a recovery key and a key file
  /// are never delayed, since they cannot be guessed.
  ///
  /// - Parameters:
  ///   - known: what only the caller knows of: wrong passcodes that could not be written to the store, and which ones
  ///     this process has tried; brought up to date.
  ///   - attempt: with this secret; a wrong passcode ends it.
  /// - Throws: `storeErased`; `passcodeDelayed`, without having tried it; `wrongPasscode`, `wrongRecoveryKey`,
  ///   `wrongKeyFile`; `effaceableSecretMissing`; `keybagAltered`.
  package func open(
    _ keybag: Keybag, with secret: borrowing UnlockSecret, deviceKey: borrowing VolumeDeviceKey,
    known: inout PasscodeAttempts, _ attempt: inout UnlockAttempt
  ) throws(KeyManagementError) -> OpenKeybag {
    if let time = keybag.erasureTime { throw .storeErased(at: time) }
    let stored = try attempts(keybag, deviceKey)
    var attempts = PasscodeAttempts(stored: stored, known: known)
    let now = WallClock.seconds
    let beginsAgain = attempts.beginAgain(at: now)
    if secret.kind.takesPasscode, attempt.isCounted {
      let delay = attempts.delay(at: now)
      guard delay == 0 else {
        if beginsAgain { known = keep(attempts, keybag, deviceKey, &attempt) }
        throw .passcodeDelayed(seconds: delay)
      }
    }
    var refused = Refused(stored: stored, attempts: attempts, time: now)
    guard let opened = open(keybag, with: secret, deviceKey, try effaceableSecret(of: keybag), &refused) else {
      throw refusal(of: refused, on: keybag, deviceKey, known: &known, &attempt)
    }
    known = PasscodeAttempts()
    if stored.count > 0 { forgetAttempts() }
    return opened
  }

  /// What is known of a secret that may be refused.
  private struct Refused {
    let stored: PasscodeAttempts
    var attempts: PasscodeAttempts
    let time: UInt64
    /// Of a passcode that no protector has taken.
    var fingerprint: UInt16?
    var failure: KeyManagementError?
  }

  /// Counts a wrong passcode; returns the error for the caller. One that is wrong so far counts, although a TPM could
  /// not be asked about it.
  @inline(never)
  private func refusal(
    of refused: Refused, on keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey, known: inout PasscodeAttempts,
    _ attempt: inout UnlockAttempt
  ) -> KeyManagementError {
    if let failure = refused.failure, !failure.isOfTPM { return failure }
    guard attempt.isCounted else {
      if let fingerprint = refused.fingerprint { known.note(ofLogin: fingerprint) }
      return refused.failure ?? .wrongPasscode
    }
    var attempts = refused.attempts
    if let fingerprint = refused.fingerprint {
      let most = if !erasesItself, let limit = keybag.record.eraseAfter { UInt32(limit) - 1 } else { UInt32.max }
      attempts.note(fingerprint, at: refused.time, most: most)
    }
    if attempts.record != refused.stored.record { known = keep(attempts, keybag, deviceKey, &attempt) }
    if let failure = refused.failure { return failure }
    guard erasesItself, let limit = keybag.record.eraseAfter, attempts.count >= UInt32(limit) else {
      return .wrongPasscode
    }
    do throws(KeyManagementError) {
      // What is in place: it may be another keybag than the one that the passcode was tried on.
      let erasure = try erase(keybag, deviceKey: deviceKey)
      // Should a power cut bring the keybag back, the next wrong passcode erases it again.
      if let failure = erasure.failure { return failure }
      forgetAttempts()
      return .storeErased(at: erasure.tombstone.erasureTime ?? refused.time)
    } catch {
      return error
    }
  }

  /// The opened keybag; `nil` for a wrong passcode, and for what is noted as a failure.
  @inline(never)
  private func open(
    _ keybag: Keybag, with secret: borrowing UnlockSecret, _ deviceKey: borrowing VolumeDeviceKey,
    _ effaceable: consuming EffaceableSecret, _ refused: inout Refused
  ) -> OpenKeybag? {
    do throws(KeyManagementError) {
      return try keybag.attempt(secret, deviceKey: deviceKey, effaceable: effaceable, &refused.fingerprint)
    } catch {
      refused.failure = error
      return nil
    }
  }

  /// Writes the count into the store; returns what the caller must keep: all of it where it could not be written.
  private func keep(
    _ attempts: PasscodeAttempts, _ keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey,
    _ attempt: inout UnlockAttempt
  ) -> PasscodeAttempts {
    guard var record = attempts.record, let tag = try? Self.tag(of: record, keybag, deviceKey) else { return attempts }
    record.tag = tag
    return attempt.write(record, to: attemptsName, in: directory) ? attempts.afterWriting : attempts
  }

  /// Opens a keybag in a process that tries one secret.
  package func open(
    _ keybag: Keybag, with secret: borrowing UnlockSecret, deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> OpenKeybag {
    var known = PasscodeAttempts()
    var attempt = attempt(with: secret)
    return try open(keybag, with: secret, deviceKey: deviceKey, known: &known, &attempt)
  }

  /// The wrong passcodes of this and other processes. A file that is damaged counts as none: who could damage it could
  /// as well remove it, or try passcodes on a copy of the store.
  package func attempts(
    _ keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> PasscodeAttempts {
    guard let bytes = try? read(attemptsName, limit: AttemptsRecord.size + 1),
      let record = try? AttemptsRecord(parsing: bytes)
    else { return PasscodeAttempts() }
    let tag = try Self.tag(of: record, keybag, deviceKey)
    return isEqualInConstantTime(tag, record.tag) ? PasscodeAttempts(record) : PasscodeAttempts()
  }

  private static func tag(
    of record: AttemptsRecord, _ keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> [UInt8] {
    try KeyManagementError.wrapping { () throws(CryptographyError) in
      try RecordAuthenticator(key: deviceKey.key(for: .attempts, of: keybag.storeID)).code("", record.bytesBeforeTag)
    }
  }
}
