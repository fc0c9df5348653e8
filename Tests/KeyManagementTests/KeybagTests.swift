import Cryptography
import DataProtection
import StoreFormat
import TestVectors
import Testing

@testable import KeyManagement

@Suite("The keybag") struct KeybagTests {
  let store: TestStore

  init() throws {
    store = try TestStore.read()
  }

  private func expectVectorKeys(_ keys: consuming ClassKeys) {
    for (fileClass, keys) in keys.exposed() {
      #expect(keys == (fileClass == .none ? [] : store.expectedKeys(of: fileClass)))
    }
  }

  @Test func vectorIsUnlocked() throws {
    let keybag = try store.parsed()
    #expect(keybag.bytes == store.keybag.bytes)
    expectVectorKeys(try keybag.unlock(passcode: store.passcode(), deviceKey: store.volumeKey()))
    expectVectorKeys(try keybag.unlock(recoveryKey: store.recoveryKey()))
    let none = ExposedKey(try keybag.noneClassKey(deviceKey: store.volumeKey()))
    #expect([none] == store.expectedKeys(of: .none))
    #expect(keybag.publicKey.generation == 1)
    let privateKey = try #require(store.expectedKeys(of: .completeUnlessOpen).first)
    #expect(try keybag.publicKey.key == OnePassDiffieHellman.publicKey(of: SecretBytes(privateKey.bytes)))
  }

  @Test func keysAreTakenOnce() throws {
    var keys = try store.parsed().unlock(passcode: store.passcode(), deviceKey: store.volumeKey())
    #expect(keys.take(.complete) { $0.generation } == [1])
    #expect(keys.take(.complete) { $0.generation } == [])
    #expect(keys.take(.completeUntilFirstUserAuthentication) { $0.generation } == [1, 2])
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
    let byPasscode = try keybag.unlock(passcode: "1234".secret, deviceKey: deviceKey).exposed()
    let byRecoveryKey = try keybag.unlock(recoveryKey: new.recoveryKey).exposed()
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
    #expect(throws: KeyManagementError.keybagAltered) { _ = try keybag.noneClassKey(deviceKey: foreign) }
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
    #expect(throws: KeyManagementError.wrongRecoveryKey) { _ = try keybag.unlock(recoveryKey: other) }
  }

  @Test func newerStoresAreRefused() throws {
    var version = store.keybag.bytes
    version[8] = 2
    #expect(throws: KeyManagementError.unsupportedStore(.unsupportedVersion(record: .keybag, version: 2))) {
      _ = try Keybag(parsing: version, deviceKey: store.volumeKey())
    }
    var features = store.keybag.bytes
    features[10] = 1
    #expect(throws: KeyManagementError.unsupportedStore(.unknownFeatures(1))) {
      _ = try Keybag(parsing: features, deviceKey: store.volumeKey())
    }
  }

  /// Someone who has the device key, but no passcode, exchanges class B's public key: its files would be theirs.
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
    #expect(throws: KeyManagementError.keybagAltered) { _ = try forged.unlock(recoveryKey: store.recoveryKey()) }
    #expect(throws: KeyManagementError.keybagAltered) {
      _ = try forged.changingPasscode(
        from: store.passcode(), to: "new".secret, deviceKey: deviceKey, cost: TestStore.cost)
    }
  }

  @Test func calibration() throws {
    let cost = try PasscodeKey.calibratedCost()
    #expect(cost.logN >= 16 && cost.logN <= PasscodeKey.highestLogN)
    #expect(cost.memory >= 64 << 20)
    #expect((1...PasscodeKey.highestP).contains(cost.p))
  }
}

@Suite("A new passcode") struct PasscodeChangeTests {
  @Test func byPasscode() throws {
    let store = try TestStore.read()
    let before = try store.parsed()
    let after = try before.changingPasscode(
      from: store.passcode(), to: "new".secret, deviceKey: store.volumeKey(), cost: TestStore.cost)
    #expect(after.generation == before.generation + 1)
    #expect(after.record.classEntries == before.record.classEntries)
    #expect(after.protectors.map(\.id) == before.protectors.map(\.id))
    #expect(after.protectors[1] == before.protectors[1])
    let parsed = try Keybag(parsing: after.bytes, deviceKey: store.volumeKey())
    #expect(throws: KeyManagementError.wrongPasscode) {
      _ = try parsed.unlock(passcode: store.passcode(), deviceKey: store.volumeKey())
    }
    let old = try before.unlock(passcode: store.passcode(), deviceKey: store.volumeKey()).exposed()
    let new = try parsed.unlock(passcode: "new".secret, deviceKey: store.volumeKey()).exposed()
    let recovered = try parsed.unlock(recoveryKey: store.recoveryKey()).exposed()
    #expect(old == new)
    #expect(old == recovered)
    #expect(throws: KeyManagementError.wrongPasscode) {
      _ = try before.changingPasscode(from: "x".secret, to: "y".secret, deviceKey: store.volumeKey())
    }
    #expect(throws: KeyManagementError.invalidPasscode) {
      _ = try before.changingPasscode(from: store.passcode(), to: "".secret, deviceKey: store.volumeKey())
    }
  }

  @Test func byRecoveryKey() throws {
    let store = try TestStore.read()
    let before = try store.parsed()
    let after = try before.changingPasscode(
      recoveryKey: store.recoveryKey(), to: "new".secret, deviceKey: store.volumeKey(), cost: TestStore.cost)
    #expect(after.generation == before.generation + 1)
    let parsed = try Keybag(parsing: after.bytes, deviceKey: store.volumeKey())
    #expect(throws: KeyManagementError.wrongPasscode) {
      _ = try parsed.unlock(passcode: store.passcode(), deviceKey: store.volumeKey())
    }
    let old = try before.unlock(passcode: store.passcode(), deviceKey: store.volumeKey()).exposed()
    let new = try parsed.unlock(passcode: "new".secret, deviceKey: store.volumeKey()).exposed()
    let recovered = try parsed.unlock(recoveryKey: store.recoveryKey()).exposed()
    #expect(old == new)
    #expect(old == recovered)
    #expect(throws: KeyManagementError.wrongRecoveryKey) {
      _ = try before.changingPasscode(recoveryKey: RecoveryKey(), to: "y".secret, deviceKey: store.volumeKey())
    }
  }
}
