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
  ///   - known: what only the caller knows of: wrong passcodes that could not be written to the store, and which ones this
  ///     process has tried; brought up to date.
  ///   - turn: to try this secret; it ends with a wrong passcode.
  /// - Throws: `storeErased`; `passcodeDelayed`, without having tried it; `wrongPasscode`, `wrongRecoveryKey`,
  ///   `wrongKeyFile`; `effaceableSecretMissing`; `keybagAltered`.
  package func open(
    _ keybag: Keybag, with secret: borrowing UnlockSecret, deviceKey: borrowing VolumeDeviceKey,
    known: inout PasscodeAttempts, _ turn: inout PasscodeTurn
  ) throws(KeyManagementError) -> OpenKeybag {
    if let time = keybag.erasureTime { throw .storeErased(at: time) }
    let stored = try attempts(keybag, deviceKey)
    var attempts = PasscodeAttempts(stored: stored, known: known)
    let now = Self.now()
    let beginsAgain = attempts.beginAgain(at: now)
    if secret.kind.takesPasscode {
      let delay = attempts.delay(at: now)
      guard delay == 0 else {
        if beginsAgain { known = keep(attempts, keybag, deviceKey, &turn) }
        throw .passcodeDelayed(seconds: delay)
      }
    }
    var trial = Trial(stored: stored, attempts: attempts, time: now)
    guard let opened = attempt(secret, on: keybag, deviceKey, try effaceableSecret(of: keybag), &trial) else {
      throw refusal(of: trial, on: keybag, deviceKey, known: &known, &turn)
    }
    known = PasscodeAttempts()
    if stored.count > 0 { forgetAttempts() }
    return opened
  }

  /// A secret that is tried.
  private struct Trial {
    let stored: PasscodeAttempts
    var attempts: PasscodeAttempts
    let time: UInt64
    /// Of a passcode that no way in has taken.
    var fingerprint: UInt16?
    var failure: KeyManagementError?
  }

  /// Counts a wrong passcode; returns what is to be told. One that is wrong so far counts, although a TPM could not be asked
  /// about it.
  @inline(never)
  private func refusal(
    of trial: Trial, on keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey, known: inout PasscodeAttempts,
    _ turn: inout PasscodeTurn
  ) -> KeyManagementError {
    if let failure = trial.failure, !failure.isOfTPM { return failure }
    var attempts = trial.attempts
    if let fingerprint = trial.fingerprint { attempts.note(fingerprint, at: trial.time) }
    if attempts.record != trial.stored.record { known = keep(attempts, keybag, deviceKey, &turn) }
    if let failure = trial.failure { return failure }
    guard let limit = keybag.record.eraseAfter, attempts.count >= UInt32(limit) else { return .wrongPasscode }
    do throws(KeyManagementError) {
      try commit(keybag.erased(deviceKey: deviceKey))
    } catch {
      guard error.isAfterChange else { return error }
    }
    forgetAttempts()
    return .storeErased(at: trial.time)
  }

  /// The opened keybag; `nil` for a wrong passcode, and for what is told as a failure.
  @inline(never)
  private func attempt(
    _ secret: borrowing UnlockSecret, on keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey,
    _ effaceable: consuming EffaceableSecret, _ trial: inout Trial
  ) -> OpenKeybag? {
    do throws(KeyManagementError) {
      return try keybag.attempt(secret, deviceKey: deviceKey, effaceable: effaceable, &trial.fingerprint)
    } catch {
      trial.failure = error
      return nil
    }
  }

  /// Writes the count into the store; returns what the caller must keep: all of it where it could not be written.
  private func keep(
    _ attempts: PasscodeAttempts, _ keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey, _ turn: inout PasscodeTurn
  ) -> PasscodeAttempts {
    guard var record = attempts.record, let tag = try? Self.tag(of: record, keybag, deviceKey) else { return attempts }
    record.tag = tag
    return turn.write(record, in: directory) ? attempts.afterWriting : attempts
  }

  /// Opens a keybag in a process that tries one secret.
  package func open(
    _ keybag: Keybag, with secret: borrowing UnlockSecret, deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> OpenKeybag {
    var known = PasscodeAttempts()
    var turn = turn(toTry: secret)
    return try open(keybag, with: secret, deviceKey: deviceKey, known: &known, &turn)
  }

  /// The wrong passcodes of this and other processes. A file that is damaged counts as none: who could damage it could
  /// as well remove it, or try passcodes on a copy of the store.
  package func attempts(
    _ keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> PasscodeAttempts {
    guard let bytes = try? read(Self.attemptsName, limit: AttemptsRecord.size + 1),
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

  private static func now() -> UInt64 { WallClock.seconds }
}
