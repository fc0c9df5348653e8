import Cryptography
import StoreFormat
import TestVectors
import Testing

@testable import KeyManagement

@Suite("Guessing") struct PasscodeAttemptsTests {
  struct Vector: Decodable, Sendable {
    let storeID, deviceKey, record: Hex
    let passcodeKeys: [Hex]
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
    // A clock that is set back does not shorten it, and one that is far ahead was set.
    #expect(attempts.delay(at: 0) == 60)
    for fingerprint in 10..<100 { attempts.note(UInt16(fingerprint), at: 300) }
    #expect(attempts.count == 94)
    #expect(attempts.record?.fingerprints.count == AttemptsRecord.mostFingerprints)
  }

  @Test func vector() throws {
    let vector: Vector = try VectorFile.read("StoreFormatTests/attempts")[0]
    let id = try #require(StoreID(bytes: vector.storeID.bytes))
    let record = try AttemptsRecord(parsing: vector.record.bytes)
    #expect(record.bytes == vector.record.bytes)
    #expect(record.count == vector.count && record.lastTime == vector.lastTime)
    let fingerprints = try vector.passcodeKeys.map {
      try PasscodeKey.fingerprint(of: SecretBytes($0.bytes), storeID: id)
    }
    #expect(record.fingerprints == fingerprints)
    for index in vector.record.bytes.indices {
      let cut = Array(vector.record.bytes[..<index])
      #expect(throws: FormatError.self) { _ = try AttemptsRecord(parsing: cut) }
    }
  }

  /// Counted across processes: each opens the store anew.
  @Test func countedInTheStore() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    let store = try TestStore.read()
    let deviceKey = try store.volumeKey()
    let new = try Keybag.create(
      passcode: store.passcode(), deviceKey: deviceKey, storeID: store.id(), cost: TestStore.cost)
    try file.create(new.keybag, new.effaceable)
    func attempt(_ passcode: String) throws {
      _ = try file.open(new.keybag, with: .passcode(passcode.secret), deviceKey: deviceKey)
    }
    for passcode in ["a", "b", "a", "c", "c", "d"] {
      #expect(throws: KeyManagementError.wrongPasscode) { try attempt(passcode) }
    }
    #expect(try file.attempts(new.keybag, deviceKey).count == 4)
    let bytes = try directory.read(".protectfs/attempts")
    // Not even the right one is tried now; a recovery key is.
    #expect { _ = try file.open(new.keybag, with: .passcode(store.passcode()), deviceKey: deviceKey) } throws: {
      error in
      guard case KeyManagementError.passcodeDelayed(let seconds) = error else { return false }
      return (58...60).contains(seconds)
    }
    #expect(try directory.read(".protectfs/attempts") == bytes)
    // One that someone altered counts as none, as if it had been removed.
    var altered = bytes
    altered[10] = 1
    try directory.write(".protectfs/attempts", altered)
    #expect(try file.attempts(new.keybag, deviceKey) == PasscodeAttempts())
    try directory.write(".protectfs/attempts", bytes)
    _ = try file.open(new.keybag, with: .recoveryKey(new.recoveryKey.text()), deviceKey: deviceKey)
    #expect(directory.names(in: ".protectfs") == ["effaceable", "keybag", "keybag.previous"])
    _ = try file.open(new.keybag, with: .passcode(store.passcode()), deviceKey: deviceKey)
  }

  /// After as many wrong passcodes as were chosen, the store is erased.
  @Test func erasesItself() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    let store = try TestStore.read()
    let deviceKey = try store.volumeKey()
    let new = try Keybag.create(
      passcode: store.passcode(), deviceKey: deviceKey, storeID: store.id(), eraseAfter: 4, cost: TestStore.cost)
    try file.create(new.keybag, new.effaceable)
    for passcode in ["a", "b", "c", "c"] {
      #expect(throws: KeyManagementError.wrongPasscode) {
        _ = try file.open(new.keybag, with: .passcode(passcode.secret), deviceKey: deviceKey)
      }
    }
    #expect {
      _ = try file.open(new.keybag, with: .passcode("d".secret), deviceKey: deviceKey)
    } throws: { error in
      if case KeyManagementError.storeErased = error { true } else { false }
    }
    let erased = try Keybag(parsing: file.read(), deviceKey: deviceKey)
    #expect(erased.erasureTime != nil)
    #expect(try file.readPrevious() == erased.bytes)
    #expect(try directory.read(".protectfs/effaceable").allSatisfy { $0 == 0 })
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try file.open(new.keybag, with: .passcode(store.passcode()), deviceKey: deviceKey)
    }
  }
}
