import TestVectors
import Testing

@testable import Cryptography

@Suite("Key derivation") struct KeyDerivationTests {
  struct HKDFVector: Decodable, Sendable {
    let name: String
    let ikm, salt, info, output: Hex
    let count: Int
  }

  struct CounterModeVector: Decodable, Sendable {
    let name: String
    let key, output: Hex
    let fixedData, context: Hex?
    let label: String?
  }

  struct ConcatenationVector: Decodable, Sendable {
    let name: String
    let secret, info, output: Hex
    let count: Int
  }

  struct ScryptVector: Decodable, Sendable {
    let name: String
    let passcode, salt, output: Hex
    let logN, r, p: UInt8
    let count: Int
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/hkdf", as: HKDFVector.self))
  func hkdf(_ vector: HKDFVector) throws {
    func derive(_ ikm: [UInt8]) throws -> SecretBytes {
      try KeyDerivation.hkdf(
        ikm: SecretBytes(ikm), salt: vector.salt.bytes, info: vector.info.bytes, count: vector.count)
    }
    #expect(try derive(vector.ikm.bytes).exposed() == vector.output.bytes)
    #expect(try derive(vector.ikm.bytes.flippingBit(0)).exposed() != vector.output.bytes)
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/counter-mode", as: CounterModeVector.self))
  func counterMode(_ vector: CounterModeVector) throws {
    func derive(_ key: [UInt8]) throws -> SecretBytes {
      if let fixedData = vector.fixedData {
        return try KeyDerivation.counterMode(
          key: SecretBytes(key), fixedData: fixedData.bytes, count: vector.output.bytes.count)
      }
      return try KeyDerivation.counterMode(
        key: SecretBytes(key), label: vector.label ?? "", context: vector.context?.bytes ?? [],
        count: vector.output.bytes.count)
    }
    #expect(try derive(vector.key.bytes).exposed() == vector.output.bytes)
    #expect(try derive(vector.key.bytes.flippingBit(255)).exposed() != vector.output.bytes)
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/concatenation", as: ConcatenationVector.self))
  func concatenation(_ vector: ConcatenationVector) throws {
    func derive(_ info: [UInt8]) throws -> SecretBytes {
      try KeyDerivation.concatenation(secret: SecretBytes(vector.secret.bytes), info: info, count: vector.count)
    }
    #expect(try derive(vector.info.bytes).exposed() == vector.output.bytes)
    #expect(try derive(vector.info.bytes.flippingBit(9)).exposed() != vector.output.bytes)
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/scrypt", as: ScryptVector.self))
  func scrypt(_ vector: ScryptVector) throws {
    func derive(_ passcode: [UInt8], p: UInt8) throws -> SecretBytes {
      try KeyDerivation.scrypt(
        passcode: SecretBytes(passcode), salt: vector.salt.bytes,
        parameters: ScryptParameters(logN: vector.logN, r: vector.r, p: p), count: vector.count)
    }
    #expect(try derive(vector.passcode.bytes, p: vector.p).exposed() == vector.output.bytes)
    #expect(try derive(vector.passcode.bytes + [0x20], p: vector.p).exposed() != vector.output.bytes)
    #expect(try derive(vector.passcode.bytes, p: vector.p + 1).exposed() != vector.output.bytes)
  }

  /// More than the 32 MiB that libcrypto allows by default.
  @Test func scryptMayUseMuchMemory() throws {
    let cost = ScryptParameters(logN: 16, r: 8, p: 1)
    let key = try KeyDerivation.scrypt(passcode: SecretBytes([1]), salt: [2], parameters: cost)
    #expect(key.count == 32)
  }
}
