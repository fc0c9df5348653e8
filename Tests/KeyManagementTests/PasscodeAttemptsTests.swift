import Cryptography
import ProtectfsIO
import StoreFormat
import TestVectors
import Testing

@testable import KeyManagement

@Suite("Guessing") struct PasscodeAttemptsTests {
  struct Vector: Decodable, Sendable {
    let storeID, deviceKey, record: Hex
    let count: UInt32
    let lastTime: UInt64
  }

  @Test func delays() {
    let seconds: [UInt64] = [0, 0, 0, 0, 60, 300, 900, 3600, 10_800, 28_800, 28_800, 28_800]
    for (count, expected) in seconds.enumerated() { #expect(PasscodeDelay.seconds(after: UInt32(count)) == expected) }
    #expect(PasscodeDelay.seconds(after: .max) == 28_800)
  }

  @Test func theSameOneCountsOnce() {
    var attempts = PasscodeAttempts()
    for fingerprint in [1, 2, 1, 2, 2, 3, 1] as [UInt16] { attempts.note(fingerprint, at: 100) }
    #expect(attempts.count == 3)
    #expect(attempts.delay(at: 100) == 0)
    attempts.note(4, at: 200)
    #expect(attempts.delay(at: 200) == 60)
    #expect(attempts.delay(at: 259) == 1)
    #expect(attempts.delay(at: 260) == 0)
    // A clock that is set back does not shorten the delay, and a time far ahead means that the clock was set.
    #expect(attempts.delay(at: 0) == 60)
    for fingerprint in 10..<100 { attempts.note(UInt16(fingerprint), at: 300) }
    #expect(attempts.count == 94)
    // Only the latest are remembered.
    attempts.note(99, at: 300)
    #expect(attempts.count == 94)
    attempts.note(1, at: 300)
    #expect(attempts.count == 95)
  }

  /// Bits of each attempted passcode would help to exclude guesses. Another process does not know the passcodes.
  @Test func nothingOfPasscodesIsWritten() throws {
    let stored = try StoredKeybag()
    var (known, written) = (PasscodeAttempts(), [[UInt8]]())
    for passcode in ["a", "a", "b", "a"] {
      #expect(throws: KeyManagementError.wrongPasscode) {
        let secret = UnlockSecret.passcode(passcode.secret)
        var attempt = stored.file.attempt(with: secret)
        _ = try stored.file.open(stored.keybag, with: secret, deviceKey: stored.deviceKey, known: &known, &attempt)
      }
      written.append(try stored.directory.read(".protectfs/attempts"))
    }
    #expect(try stored.attempts().count == 2, "this process knows each again")
    #expect(written[0] == written[1] && written[2] == written[3])
    // A count, a time, and their authentication tag.
    #expect(written.allSatisfy { $0.count == 54 })
    #expect(throws: KeyManagementError.wrongPasscode) { _ = try stored.open(.passcode("a".secret)) }
    #expect(try stored.attempts().count == 3, "another process does not")
    // A malformed record is overwritten.
    try stored.directory.write(".protectfs/attempts", written[3][..<22] + [1, 2, 3, 4] + written[3][22...])
    stored.file.reserveAttempts()
    #expect(try stored.directory.read(".protectfs/attempts") == AttemptsRecord.blank)
  }

  @Test func vector() throws {
    let vector: Vector = try VectorFile.read("StoreFormatTests/attempts")[0]
    let record = try AttemptsRecord(parsing: vector.record.bytes)
    #expect(record.bytes == vector.record.bytes)
    #expect(record.count == vector.count && record.lastTime == vector.lastTime)
    for index in vector.record.bytes.indices {
      let cut = Array(vector.record.bytes[..<index])
      #expect(throws: FormatError.self) { _ = try AttemptsRecord(parsing: cut) }
    }
  }

  /// A passcode that a login program has accepted is no guess: a wrong one is not counted, and none is delayed.
  @Test func ofLogins() throws {
    let stored = try StoredKeybag(eraseAfter: 4)
    func login(_ passcode: String) throws -> OpenKeybag {
      var known = PasscodeAttempts()
      let secret = UnlockSecret.passcode(passcode.secret)
      var attempt = stored.file.attempt(with: secret, isCounted: false)
      // Nothing but which one it was.
      defer { #expect(known == PasscodeAttempts(stored: PasscodeAttempts(), known: known)) }
      return try stored.file.open(stored.keybag, with: secret, deviceKey: stored.deviceKey, known: &known, &attempt)
    }
    for number in 1...20 {
      #expect(throws: KeyManagementError.wrongPasscode) { _ = try login("wrong \(number)") }
    }
    #expect(try stored.attempts() == PasscodeAttempts())
    for passcode in ["a", "b", "c"] {
      #expect(throws: KeyManagementError.wrongPasscode) { _ = try stored.open(.passcode(passcode.secret)) }
    }
    #expect(throws: KeyManagementError.wrongPasscode) { _ = try login("d") }
    #expect(try stored.attempts().count == 3)
    _ = try stored.open(.passcode(stored.store.passcode()))

    let delayed = try StoredKeybag()
    for passcode in ["a", "b", "c", "d"] {
      #expect(throws: KeyManagementError.wrongPasscode) { _ = try delayed.open(.passcode(passcode.secret)) }
    }
    var known = PasscodeAttempts()
    let secret = UnlockSecret.passcode(delayed.store.passcode())
    var attempt = delayed.file.attempt(with: secret, isCounted: false)
    _ = try delayed.file.open(
      delayed.keybag, with: secret, deviceKey: delayed.deviceKey, known: &known, &attempt)
    #expect(try delayed.attempts() == PasscodeAttempts())
  }

  /// An account whose password was set anew, day by day: a login with it, and then a screen lock, which counts. The
  /// store is not erased for it; a guess at the same screen lock counts.
  @Test func ofAScreenLockAfterALogin() throws {
    let stored = try StoredKeybag(eraseAfter: 4)
    var known = PasscodeAttempts()
    func attempt(_ passcode: String, isCounted: Bool) throws {
      let secret = UnlockSecret.passcode(passcode.secret)
      var attempt = stored.file.attempt(with: secret, isCounted: isCounted)
      #expect(throws: KeyManagementError.wrongPasscode) {
        _ = try stored.file.open(stored.keybag, with: secret, deviceKey: stored.deviceKey, known: &known, &attempt)
      }
    }
    for day in 1...8 {
      // Each day's first login starts a daemon.
      known = PasscodeAttempts()
      let password = "new password \(day % 2)"
      try attempt(password, isCounted: false)
      for _ in 1...2 { try attempt(password, isCounted: true) }
      #expect(try stored.attempts() == PasscodeAttempts())
    }
    try attempt("a guess", isCounted: true)
    #expect(try stored.attempts().count == 1)
    _ = try stored.open(.passcode(stored.store.passcode()))
  }

  /// Counted across processes: each attempt opens the store again.
  @Test func countedInTheStore() throws {
    let stored = try StoredKeybag()
    for passcode in ["a", "b", "a", "c"] {
      #expect(throws: KeyManagementError.wrongPasscode) { _ = try stored.open(.passcode(passcode.secret)) }
    }
    #expect(try stored.attempts().count == 4)
    let bytes = try stored.directory.read(".protectfs/attempts")
    // Not even the right passcode is checked now, but a recovery key is.
    #expect { _ = try stored.open(.passcode(stored.store.passcode())) } throws: {
      error in
      guard case KeyManagementError.passcodeDelayed(let seconds) = error else { return false }
      return (58...60).contains(seconds)
    }
    #expect(try stored.directory.read(".protectfs/attempts") == bytes)
    // An altered record counts as none, as if it had been removed.
    var altered = bytes
    altered[10] = 1
    try stored.directory.write(".protectfs/attempts", altered)
    #expect(try stored.attempts() == PasscodeAttempts())
    try stored.directory.write(".protectfs/attempts", bytes)
    _ = try stored.open(.recoveryKey(stored.new.recoveryKey.text()))
    // The file stays, so that there is room for the next record, but it is empty.
    #expect(stored.directory.names(in: ".protectfs") == ["attempts", "effaceable", "keybag", "keybag.previous"])
    #expect(try stored.directory.read(".protectfs/attempts") == [UInt8](repeating: 0, count: 54))
    _ = try stored.open(.passcode(stored.store.passcode()))
  }

  /// If no new file can be written, the existing one is overwritten.
  @Test func countedWithoutRoom() throws {
    let stored = try StoredKeybag()
    stored.file.reserveAttempts()
    #expect(try stored.directory.read(".protectfs/attempts") == AttemptsRecord.blank)
    #expect(try stored.attempts() == PasscodeAttempts())
    let inode = try stored.file.directory.status(of: "attempts").inode
    try stored.file.directory.makeDirectory("attempts.new", mode: 0o700)

    for (passcode, count) in [("a", 1), ("b", 2), ("a", 3)] as [(String, UInt32)] {
      #expect(throws: KeyManagementError.wrongPasscode) { _ = try stored.open(.passcode(passcode.secret)) }
      #expect(try stored.attempts().count == count)
    }
    // One attempt at a time here too, and no attempt is blocked for ever.
    let passcode = UnlockSecret.passcode(stored.store.passcode())
    do {
      let attempt = stored.file.attempt(with: passcode)
      let time = SimulatedTime()
      let other = time.run {
        stored.file.attempt(with: passcode, patience: .seconds(20))
      }
      #expect(time.passed >= .seconds(20))
      _ = consume attempt
      _ = consume other
    }
    _ = try stored.open(passcode)
    #expect(try stored.directory.read(".protectfs/attempts") == AttemptsRecord.blank)
    #expect(try stored.file.directory.status(of: "attempts").inode == inode)
    // The existing file is not changed.
    #expect(throws: KeyManagementError.wrongPasscode) { _ = try stored.open(.passcode("a".secret)) }
    stored.file.reserveAttempts()
    #expect(try stored.attempts().count == 1)
  }

  /// After the set number of wrong passcodes, the store is erased.
  @Test func erasesItself() throws {
    let stored = try StoredKeybag(eraseAfter: 4)
    for passcode in ["a", "b", "c"] {
      #expect(throws: KeyManagementError.wrongPasscode) {
        _ = try stored.open(.passcode(passcode.secret))
      }
    }
    #expect {
      _ = try stored.open(.passcode("d".secret))
    } throws: { error in
      if case KeyManagementError.storeErased = error { true } else { false }
    }
    let erased = try Keybag(parsing: stored.file.read(), deviceKey: stored.deviceKey)
    #expect(erased.erasureTime != nil)
    #expect(try stored.file.readPrevious() == erased.bytes)
    #expect(try stored.directory.read(".protectfs/effaceable").allSatisfy { $0 == 0 })
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try stored.open(.passcode(stored.store.passcode()))
    }
  }

  /// What is in place is erased, also where the caller goes by another keybag: one was put there behind a daemon's
  /// back.
  @Test(arguments: [true, false]) func erasesWhatIsInPlace(isDamaged: Bool) throws {
    let stored = try StoredKeybag(eraseAfter: 4)
    var record = stored.keybag.record
    record.generation = 7
    record.tag = try Keybag.tag(of: record, stored.deviceKey)
    if isDamaged { record.tag[0] ^= 1 }
    try stored.directory.write(".protectfs/keybag", record.bytes)
    for passcode in ["a", "b", "c"] {
      #expect(throws: KeyManagementError.wrongPasscode) { _ = try stored.open(.passcode(passcode.secret)) }
    }
    #expect {
      _ = try stored.open(.passcode("d".secret))
    } throws: { error in
      if case KeyManagementError.storeErased = error { true } else { false }
    }
    let erased = try Keybag(parsing: stored.file.read(), deviceKey: stored.deviceKey)
    #expect(erased.erasureTime != nil)
    #expect(erased.generation == (isDamaged ? 2 : 8))
    #expect(try stored.file.readPrevious() == erased.bytes)
    #expect(try stored.directory.read(".protectfs/effaceable").allSatisfy { $0 == 0 })
  }

  /// Passcodes that are tried at the same time count each.
  @Test func triedAtOnceTheyCountEach() async throws {
    let stored = try StoredKeybag()
    let (path, keybag, key) = (stored.directory.path, stored.keybag, stored.deviceKey.secret.exposed())
    await withTaskGroup(of: Void.self) { group in
      for passcode in ["a", "b", "c"] {
        group.addTask {
          #expect(throws: KeyManagementError.wrongPasscode) {
            let backing = try Descriptor.open(PathName(path), [.readOnly, .directory])
            let deviceKey = try VolumeDeviceKey(SecretBytes(key))
            _ = try KeybagFile(backing: backing).open(keybag, with: .passcode(passcode.secret), deviceKey: deviceKey)
          }
        }
      }
    }
    #expect(try stored.attempts().count == 3)
  }

  /// A process that does not end its attempt holds others up for a while; what it tries counts.
  @Test func attemptsInTurn() throws {
    let stored = try StoredKeybag()
    let wrong = UnlockSecret.passcode("a".secret)
    var known = PasscodeAttempts()
    var first = stored.file.attempt(with: wrong)
    _ = try stored.open(.recoveryKey(stored.new.recoveryKey.text()))
    let time = SimulatedTime()
    var second = time.run {
      stored.file.attempt(with: wrong, patience: .seconds(50))
    }
    #expect(time.passed >= .seconds(50))
    let inode = try stored.file.directory.status(of: "attempts.new").inode
    #expect(throws: KeyManagementError.wrongPasscode) {
      _ = try stored.file.open(
        stored.keybag, with: wrong, deviceKey: stored.deviceKey, known: &known, &first)
    }
    #expect(try stored.file.directory.status(of: "attempts.new").inode == inode, "the second one's file stays")
    #expect(throws: KeyManagementError.wrongPasscode) {
      _ = try stored.file.open(
        stored.keybag, with: .passcode("b".secret), deviceKey: stored.deviceKey, known: &known, &second)
    }
    #expect(try stored.attempts().count == 2)
    _ = try stored.open(.passcode(stored.store.passcode()))
    #expect(stored.directory.names(in: ".protectfs") == ["attempts", "effaceable", "keybag", "keybag.previous"])
  }

  /// A process that keeps the file locked, in whatever way, does not block others.
  @Test func aHeldFileIsOvertaken() throws {
    let stored = try StoredKeybag()
    let name: PathName = "attempts.new"
    let held = try stored.file.directory.open(name, [.writeOnly, .create], mode: 0o666)
    try held.lock()
    for _ in 0..<2 {
      var attempt = SimulatedTime().run {
        stored.file.attempt(with: .passcode("a".secret), patience: .seconds(20))
      }
      var known = PasscodeAttempts()
      #expect(throws: KeyManagementError.wrongPasscode) {
        _ = try stored.file.open(
          stored.keybag, with: .passcode("a".secret), deviceKey: stored.deviceKey, known: &known, &attempt)
      }
    }
    #expect(try stored.attempts().count == 2)
  }
}
