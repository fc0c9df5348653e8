import Cryptography
import StoreFormat
import SystemPackage
import TestVectors
import Testing

@testable import KeyManagement

@Suite("The key hierarchy") struct KeyHierarchyTests {
  struct Vector: Decodable, Sendable {
    let name, storeText, recoveryText: String
    let storeID, deviceKey, volumeDeviceKey, passcode, salt, passcodeKey, recoveryKey, recoveryWrappingKey: Hex
    let fileKey, contentsKey, attributeKey: Hex
    let logN, r, p: UInt8
    let uses: [String: Hex]
  }

  @Test(arguments: try VectorFile.read("StoreFormatTests/keys", as: Vector.self))
  func vector(_ vector: Vector) throws {
    let store = try #require(StoreID(bytes: vector.storeID.bytes))
    #expect(store.description == vector.storeText)
    let volumeKey = try VolumeDeviceKey(deviceKey: SecretBytes(vector.deviceKey.bytes), storeID: store)
    #expect(volumeKey.secret.exposed() == vector.volumeDeviceKey.bytes)
    #expect(Set(vector.uses.keys) == Set(VolumeDeviceKey.Use.allCases.map(\.rawValue)))
    for use in VolumeDeviceKey.Use.allCases {
      #expect(try volumeKey.key(for: use, of: store).exposed() == vector.uses[use.rawValue]?.bytes)
    }
    let derivation = KeybagRecord.PasscodeDerivation(
      logN: vector.logN, r: vector.r, p: vector.p, salt: vector.salt.bytes)
    let passcodeKey = try PasscodeKey.derive(
      SecretBytes(vector.passcode.bytes), derivation, volumeKey, storeID: store)
    #expect(passcodeKey.exposed() == vector.passcodeKey.bytes)
    let recoveryKey = RecoveryKey(SecretBytes(vector.recoveryKey.bytes))
    #expect(try recoveryKey.text().exposed() == Array(vector.recoveryText.utf8))
    #expect(try recoveryKey.wrappingKey(of: store).exposed() == vector.recoveryWrappingKey.bytes)
  }

  /// The keys in use are the derived ones: each encrypts what a cipher with the vector's key decrypts.
  @Test func volumeKeys() throws {
    let vector = try VectorFile.read("StoreFormatTests/keys", as: Vector.self)[0]
    let store = try #require(StoreID(bytes: vector.storeID.bytes))
    let keys = try VolumeKeys(VolumeDeviceKey(SecretBytes(vector.volumeDeviceKey.bytes)), storeID: store)
    let ciphers = [
      "names": keys.names, "symbolic links": keys.symbolicLinks, "attribute names": keys.attributeNames,
      "directory attributes": keys.directoryAttributes,
    ]
    for (use, cipher) in ciphers {
      let other = try NameCipher(key: SecretBytes(vector.uses[use]?.bytes ?? []))
      #expect(try other.decrypt(cipher.encrypt([1, 2], associatedData: [3]), associatedData: [3]) == [1, 2])
    }
    for (use, authenticator) in ["records": keys.records, "attribute name hash": keys.attributeNameHash] {
      let other = try RecordAuthenticator(key: SecretBytes(vector.uses[use]?.bytes ?? []))
      #expect(try other.verify(authenticator.tag("label", [1]), "label", [1]))
    }
  }

  @Test func fileKeys() throws {
    let vector = try VectorFile.read("StoreFormatTests/keys", as: Vector.self)[0]
    let key = try FileKey(SecretBytes(vector.fileKey.bytes))
    let other = try NameCipher(key: SecretBytes(vector.attributeKey.bytes))
    #expect(try other.decrypt(key.attributeCipher().encrypt([9], associatedData: nil), associatedData: nil) == [9])
    #expect(throws: CryptographyError.invalidLength("a file's key")) { _ = try FileKey(SecretBytes(count: 31)) }
  }

  /// The tags of the vectors' records and the encrypted names, with the keys of a mount.
  @Test func recordsAndNames() throws {
    struct RecordVector: Decodable {
      let recordsKey, record: Hex
      let clean: Clean?
    }
    struct Clean: Decodable {
      let length: UInt64
    }
    struct NameVector: Decodable {
      let key, directoryID, plain, sealed: Hex
      let backing: String
    }
    for vector in try VectorFile.read("StoreFormatTests/file-records", as: RecordVector.self) {
      let records = try RecordAuthenticator(key: SecretBytes(vector.recordsKey.bytes))
      var record = try FileRecord(parsing: vector.record.bytes, length: vector.clean?.length)
      #expect(try records.verify(record.tag, FileRecord.tagLabel, record.authenticatedBytes, size: record.tagSize))
      #expect(
        try !records.verify(record.tag, DirectoryRecord.tagLabel, record.authenticatedBytes, size: record.tagSize))
      guard vector.clean != nil else { continue }
      record.clean?.length += 1
      #expect(try !records.verify(record.tag, FileRecord.tagLabel, record.authenticatedBytes, size: record.tagSize))
    }
    for vector in try VectorFile.read("StoreFormatTests/directory-records", as: RecordVector.self) {
      let records = try RecordAuthenticator(key: SecretBytes(vector.recordsKey.bytes))
      let record = try DirectoryRecord(parsing: vector.record.bytes)
      #expect(try records.verify(record.tag, DirectoryRecord.tagLabel, record.bytesBeforeTag))
      #expect(try !records.verify(record.tag, FileRecord.tagLabel, record.bytesBeforeTag))
    }
    for vector in try VectorFile.read("StoreFormatTests/names", as: NameVector.self) {
      let names = try NameCipher(key: SecretBytes(vector.key.bytes))
      let sealed = try names.encrypt(vector.plain.bytes, associatedData: vector.directoryID.bytes)
      #expect(sealed == vector.sealed.bytes)
      #expect(try NameEncoding.backingName(encrypted: sealed, digest: sha256).bytes == Array(vector.backing.utf8))
    }
  }

  /// Permanent damage is distinguished from a temporary failure of libcrypto.
  @Test func failures() {
    let damage: [CryptographyError] = [.wrongKey, .notAuthentic, .invalidPublicKey, .invalidLength("a key")]
    for error in damage { #expect(Errno(error) == .ioError) }
    #expect(Errno(CryptographyError.library(operation: "make a cipher", reason: "no memory")) == .noMemory)
  }
}
