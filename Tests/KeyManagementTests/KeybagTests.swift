import Cryptography
import ProtectfsPolicy
import StoreFormat
import TestVectors
import Testing

@testable import KeyManagement

@Suite("The keybag") struct KeybagTests {
  let store: TestStore

  init() throws {
    store = try TestStore.read()
  }

  private func expectVectorKeys(_ keys: [ProtectionClass: [HeldKey]]) {
    for (fileClass, keys) in keys.exposed() {
      #expect(keys == (fileClass == .none ? [] : store.expectedKeys(of: fileClass)))
    }
  }

  @Test func vectorIsUnlocked() throws {
    let keybag = try store.parsed()
    #expect(keybag.bytes == store.keybag.bytes)
    expectVectorKeys(try keybag.unlock(passcode: store.passcode(), deviceKey: store.volumeKey()))
    expectVectorKeys(try keybag.open(recoveryKey: store.recoveryKey()).heldKeys())
    let none = try keybag.noneClassKeys(deviceKey: store.volumeKey(), effaceable: .absent()).map { ExposedKey($0) }
    #expect(none == store.expectedKeys(of: .none))
    let privateKey = try #require(store.expectedKeys(of: .completeUnlessOpen).first)
    let publicKey = try OnePassDiffieHellman.publicKey(of: SecretBytes(privateKey.bytes))
    #expect(keybag.publicKeys.values.map { $0 } == [publicKey])
  }

  /// Each protector of the keybag that has everything yields the keys of the vector.
  @Test func vectorWithEverythingIsOpened() throws {
    let store = try TestStore.read(1)
    let keybag = try store.parsed()
    #expect(keybag.bytes == store.keybag.bytes)
    #expect(keybag.record.features == [.effaceableSecret, .eraseAfter])
    #expect(keybag.record.eraseAfter == 10)
    #expect(keybag.erasureTime == nil)
    let keyFile = try #require(store.protectors.compactMap(\.keyFile).first).bytes
    let deviceKey = try store.volumeKey()
    for kind in 0..<3 {
      let secret: UnlockSecret =
        switch kind {
        case 0: .passcode(store.passcode())
        case 1: .recoveryKey(SecretBytes(Array(store.recoveryText.utf8)))
        default: .keyFile(SecretBytes(keyFile))
        }
      let opened = try keybag.open(secret, deviceKey: deviceKey, effaceable: store.effaceableSecret())
      for (fileClass, keys) in try opened.heldKeys().exposed() {
        #expect(keys == (fileClass == .none ? [] : store.expectedKeys(of: fileClass)))
      }
    }
    let none = try keybag.noneClassKeys(deviceKey: deviceKey, effaceable: store.effaceableSecret()).map {
      ExposedKey($0)
    }
    #expect(none == store.expectedKeys(of: .none))
    let recovered = try Keybag.recover(keybag.bytes, backupPasscode: store.passcode())
    #expect(recovered.secret.exposed() == deviceKey.secret.exposed())
    #expect(keybag.record.formerKeys.map(\.end) == [.rotated, .erased])
    #expect(keybag.record.formerKeys.allSatisfy { keybag.isRetired($0.id) })

    #expect(throws: KeyManagementError.wrongKeyFile) {
      _ = try keybag.open(
        .keyFile(SecretBytes(count: 32)), deviceKey: deviceKey, effaceable: store.effaceableSecret())
    }
    // Without the effaceable secret the passcode is accepted, but no class key unwraps.
    let other = try keybag.open(.passcode(store.passcode()), deviceKey: deviceKey, effaceable: EffaceableSecret())
    #expect(throws: KeyManagementError.keybagAltered) { _ = try other.heldKeys() }
  }

  @Test func erasedVectorOpensNothing() throws {
    let store = try TestStore.read(2)
    let keybag = try store.parsed()
    #expect(keybag.erasureTime == 1_770_000_000)
    #expect(keybag.protectors.isEmpty)
    for fileClass in ProtectionClass.allCases { #expect(keybag.keyIDs(of: fileClass).isEmpty) }
    #expect(throws: KeyManagementError.wrongRecoveryKey) {
      _ = try Keybag.recover(keybag.bytes, recoveryKey: RecoveryKey())
    }
    let first = try TestStore.read()
    let erased = try first.parsed().erased(deviceKey: first.volumeKey())
    #expect(erased.erasureTime != nil && erased.protectors.isEmpty)
    #expect(try Keybag(parsing: erased.bytes, deviceKey: first.volumeKey()) == erased)
  }

  /// Keys that a reset abandoned are remembered as such.
  @Test func resetVectorIsOpened() throws {
    let store = try TestStore.read(3)
    let keybag = try store.parsed()
    #expect(keybag.bytes == store.keybag.bytes)
    #expect(keybag.record.formerKeys.map(\.end) == [.reset, .reset, .reset, .reset, .reset])
    let first = try TestStore.read().parsed()
    let given = first.record.classEntries.filter { $0.fileClass != .none }.map(\.id)
    #expect(keybag.record.formerKeys.map(\.id) == given)
    #expect(keybag.keyIDs(of: .none) == first.keyIDs(of: .none))
    for (fileClass, keys) in try keybag.unlock(passcode: store.passcode(), deviceKey: store.volumeKey()).exposed() {
      #expect(keys == (fileClass == .none ? [] : store.expectedKeys(of: fileClass)))
    }
    // A second copy from before may be restored, so the keys that only it has are not gone for good.
    #expect(!keybag.hasOrEnded(keysOf: first))
  }

  @Test(arguments: ProtectionClass.allCases) func newKeybag(_ defaultClass: ProtectionClass) throws {
    let id = try StoreID.random()
    let deviceKey = try VolumeDeviceKey(SecretBytes(randomCount: 32))
    guard defaultClass != .none else {
      #expect(throws: KeyManagementError.invalidDefaultClass) {
        _ = try Keybag.create(defaultClass: .none, passcode: "1234".secret, deviceKey: deviceKey, storeID: id)
      }
      return
    }
    let new = try Keybag.create(
      defaultClass: defaultClass, passcode: "1234".secret, deviceKey: deviceKey, storeID: id, cost: TestStore.cost)
    let keybag = try Keybag(parsing: new.keybag.bytes, deviceKey: deviceKey)
    #expect(keybag == new.keybag)
    #expect(keybag.defaultClass == defaultClass)
    #expect(keybag.generation == 1)
    #expect(keybag.storeID == id)
    let byPasscode = try keybag.open(
      passcode: "1234".secret, deviceKey: deviceKey, effaceable: new.change.secret.copy()
    ).heldKeys().exposed()
    let byRecoveryKey = try keybag.open(recoveryKey: new.recoveryKey, effaceable: new.change.secret.copy())
      .heldKeys().exposed()
    #expect(byPasscode == byRecoveryKey)
    #expect(byPasscode.values.map(\.count).sorted() == [0, 1, 1, 1, 1])
    #expect(Set(byPasscode.values.joined().map(\.bytes)).count == 4)
  }

  @Test func everyChangedByteIsRefused() throws {
    let deviceKey = try store.volumeKey()
    for offset in store.keybag.bytes.indices {
      for mask in [0x01, 0x80] as [UInt8] {
        var bytes = store.keybag.bytes
        bytes[offset] ^= mask
        #expect(throws: KeyManagementError.self) { _ = try Keybag(parsing: bytes, deviceKey: deviceKey) }
        #expect(throws: KeyManagementError.self) { _ = try Keybag.recover(bytes, recoveryKey: store.recoveryKey()) }
      }
    }
  }

  @Test func everyOtherLengthIsRefused() throws {
    let deviceKey = try store.volumeKey()
    for count in 0..<store.keybag.bytes.count {
      #expect(throws: KeyManagementError.self) {
        _ = try Keybag(parsing: Array(store.keybag.bytes.prefix(count)), deviceKey: deviceKey)
      }
    }
    #expect(throws: KeyManagementError.self) { _ = try Keybag(parsing: store.keybag.bytes + [0], deviceKey: deviceKey) }
  }

  @Test func wrongPasscode() throws {
    let keybag = try store.parsed()
    for passcode in ["correct horse battery stapl", "correct horse battery staple ", "Correct horse battery staple"] {
      #expect(throws: KeyManagementError.wrongPasscode) {
        _ = try keybag.unlock(passcode: passcode.secret, deviceKey: store.volumeKey())
      }
    }
    for passcode in ["", String(repeating: "a", count: 1025)] {
      #expect(throws: KeyManagementError.invalidPasscode) {
        _ = try keybag.unlock(passcode: passcode.secret, deviceKey: store.volumeKey())
      }
    }
  }

  @Test func foreignDeviceKey() throws {
    let foreign = try VolumeDeviceKey(SecretBytes(randomCount: 32))
    #expect(throws: KeyManagementError.foreignDeviceKey) {
      _ = try Keybag(parsing: store.keybag.bytes, deviceKey: foreign)
    }
    let keybag = try store.parsed()
    #expect(throws: KeyManagementError.wrongPasscode) {
      _ = try keybag.unlock(passcode: store.passcode(), deviceKey: foreign)
    }
    #expect(throws: KeyManagementError.keybagAltered) {
      _ = try keybag.noneClassKeys(deviceKey: foreign, effaceable: .absent())
    }
  }

  @Test func alteredIsTold() throws {
    var bytes = store.keybag.bytes
    bytes[bytes.count - 1] ^= 1
    #expect(throws: KeyManagementError.keybagAltered) {
      _ = try Keybag(parsing: bytes, deviceKey: store.volumeKey())
    }
  }

  @Test func recovery() throws {
    let deviceKey = try Keybag.recover(store.keybag.bytes, recoveryKey: store.recoveryKey())
    #expect(try deviceKey.secret.exposed() == store.volumeKey().secret.exposed())
    let keybag = try Keybag(parsing: store.keybag.bytes, deviceKey: deviceKey)
    expectVectorKeys(try keybag.unlock(passcode: store.passcode(), deviceKey: deviceKey))
    let other = try RecoveryKey()
    #expect(throws: KeyManagementError.wrongRecoveryKey) {
      _ = try Keybag.recover(store.keybag.bytes, recoveryKey: other)
    }
    #expect(throws: KeyManagementError.wrongRecoveryKey) {
      _ = try keybag.open(.recoveryKey(other.text()), deviceKey: store.volumeKey(), effaceable: .absent())
    }
  }

  @Test func newerStoresAreRefused() throws {
    var version = store.keybag.bytes
    version[8] = 3
    #expect(throws: KeyManagementError.unsupportedStore(.unsupportedVersion(record: .keybag, version: 3))) {
      _ = try Keybag(parsing: version, deviceKey: store.volumeKey())
    }
    var features = store.keybag.bytes
    features[10] = 2
    #expect(throws: KeyManagementError.unsupportedStore(.unknownFeatures(2))) {
      _ = try Keybag(parsing: features, deviceKey: store.volumeKey())
    }
  }

  /// An attacker with the device key but no passcode replaces class B's public key, to read its files.
  @Test func sealIsVerified() throws {
    let deviceKey = try store.volumeKey()
    var record = try store.parsed().record
    let index = try #require(record.classEntries.firstIndex { $0.fileClass == .completeUnlessOpen })
    record.classEntries[index].publicKey = try OnePassDiffieHellman.KeyPair().publicKey
    record.tag = try Keybag.tag(of: record, deviceKey)
    let forged = try Keybag(parsing: record.bytes, deviceKey: deviceKey)
    #expect(throws: KeyManagementError.keybagAltered) {
      _ = try forged.unlock(passcode: store.passcode(), deviceKey: deviceKey)
    }
    #expect(throws: KeyManagementError.keybagAltered) { _ = try forged.open(recoveryKey: store.recoveryKey()) }
  }

  @Test func calibration() throws {
    let stretched = try PasscodeKey.stretch(new: "a passcode".secret, cost: nil)
    let derivation = stretched.derivation
    let cost = ScryptParameters(logN: derivation.logN, r: derivation.r, p: derivation.p)
    #expect(cost.logN >= 16 && cost.logN <= PasscodeKey.highestLogN)
    #expect(cost.memory >= 64 << 20)
    #expect((1...PasscodeKey.highestP).contains(cost.p))
    #expect(try PasscodeKey.stretch("a passcode".secret, derivation) == stretched.secret)
  }

  /// An attacker who can write the keybag must not lower the cost of an unlock attempt, which could reveal the
  /// passcode.
  @Test func cheapCostsAreRefused() throws {
    let record = try TestStore.read().parsed().record
    for (logN, isTaken) in [(16, true), (15, false), (14, false), (1, false), (22, false)] as [(UInt8, Bool)] {
      var changed = record
      changed.protectors[0] = KeybagRecord.Protector(
        id: record.protectors[0].id, label: "passcode", wrappedKeybagKey: record.protectors[0].wrappedKeybagKey,
        method: .passcode(.init(logN: logN, r: 8, p: 1, salt: [UInt8](repeating: 1, count: 32))))
      #expect(((try? KeybagRecord(parsing: changed.bytes)) != nil) == isTaken, "\(logN)")
    }
    #expect(PasscodeKey.leastCost.logN == 16 && PasscodeKey.leastCost.r == 8)
  }

  /// Other load on the machine must not make a cost pass for a higher one.
  @Test(arguments: 0..<2) func calibrationTakesTheShortestTime(_ undisturbed: Int) throws {
    var measured: [UInt8: Int] = [:]
    let cost = try PasscodeKey.calibrate { cost in
      let number = measured[cost.logN, default: 0]
      measured[cost.logN] = number + 1
      let own = Duration.milliseconds(cost.logN < 18 ? 60 : 110)
      return number == undisturbed ? own : own + .milliseconds(500)
    }
    #expect(cost == ScryptParameters(logN: 18, r: 8, p: 1))
    #expect(measured == [16: undisturbed + 1, 17: undisturbed + 1, 18: 2])
  }

  @Test func calibrationEnds() throws {
    let cost = try PasscodeKey.calibrate { _ in .zero }
    #expect(cost == ScryptParameters(logN: PasscodeKey.highestLogN, r: 8, p: PasscodeKey.highestP))
  }

  /// Where there is no memory for a higher cost, it takes more time.
  @Test func calibrationFitsIntoTheMemory() throws {
    let cost = try PasscodeKey.calibrate(fits: { $0.logN <= 17 }) { $0.p < 3 ? .zero : .seconds(1) }
    #expect(cost == ScryptParameters(logN: 17, r: 8, p: 3))
  }
}

@Suite("A new passcode") struct PasscodeChangeTests {
  @Test func byPasscode() throws {
    let store = try TestStore.read()
    let before = try store.parsed()
    let opened = try before.open(passcode: store.passcode(), deviceKey: store.volumeKey())
    let after = try opened.changed(by: .changePasscode("new".secret), cost: TestStore.cost).keybag
    #expect(after.generation == before.generation + 1)
    #expect(after.record.classEntries == before.record.classEntries)
    #expect(after.protectors.map(\.id) == before.protectors.map(\.id))
    #expect(after.protectors[1] == before.protectors[1])
    try expectOpened(after, by: "new", notBy: store.passcode(), store, before)
    #expect(throws: KeyManagementError.wrongPasscode) {
      _ = try before.open(passcode: "x".secret, deviceKey: store.volumeKey())
    }
    for passcode in ["", String(repeating: "a", count: 1025)] {
      #expect(throws: KeyManagementError.invalidPasscode) {
        _ = try opened.changed(by: .changePasscode(passcode.secret))
      }
      #expect(throws: KeyManagementError.invalidPasscode) {
        _ = try opened.changed(by: .addProtector(.init(.tpmPasscode(passcode.secret), label: "")))
      }
    }
  }

  @Test func byRecoveryKey() throws {
    let store = try TestStore.read()
    let before = try store.parsed()
    let after = try before.open(recoveryKey: store.recoveryKey())
      .changed(by: .changePasscode("new".secret), cost: TestStore.cost).keybag
    #expect(after.generation == before.generation + 1)
    try expectOpened(after, by: "new", notBy: store.passcode(), store, before)
  }

  /// With a recovery key it is not known which of several passcodes was forgotten.
  @Test func ofSeveralByRecoveryKey() throws {
    let store = try TestStore.read()
    let before = try store.parsed()
    let two = try before.open(recoveryKey: store.recoveryKey())
      .changed(by: .addProtector(NewProtector(.passcode("child".secret), label: "child")), cost: TestStore.cost).keybag
    #expect(throws: KeyManagementError.severalPasscodes) {
      _ = try two.open(recoveryKey: store.recoveryKey()).changed(
        by: .changePasscode("new".secret), cost: TestStore.cost)
    }
    let changed = try two.open(passcode: "child".secret, deviceKey: store.volumeKey())
      .changed(by: .changePasscode("new".secret), cost: TestStore.cost).keybag
    _ = try changed.open(passcode: store.passcode(), deviceKey: store.volumeKey())
    _ = try changed.open(passcode: "new".secret, deviceKey: store.volumeKey())
  }

  private func expectOpened(
    _ after: Keybag, by new: String, notBy old: consuming SecretBytes, _ store: TestStore, _ before: Keybag
  ) throws {
    let parsed = try Keybag(parsing: after.bytes, deviceKey: store.volumeKey())
    let deviceKey = try store.volumeKey()
    let wrong = UnlockSecret.passcode(old)
    #expect(throws: KeyManagementError.wrongPasscode) {
      _ = try parsed.open(wrong, deviceKey: deviceKey, effaceable: .absent())
    }
    let keys = try before.unlock(passcode: store.passcode(), deviceKey: deviceKey).exposed()
    #expect(try parsed.unlock(passcode: new.secret, deviceKey: deviceKey).exposed() == keys)
    #expect(try parsed.open(recoveryKey: store.recoveryKey()).heldKeys().exposed() == keys)
  }
}
