import CLibcrypto
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

  /// Calls from several threads with keys of many lengths. Each result is that of libcrypto's own counter mode.
  @Test func counterModeIsThatOfLibcrypto() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for worker in 0..<4 {
        group.addTask {
          var generator = RepeatableGenerator(seed: UInt64(worker))
          for call in 0..<500 {
            let key = generator.bytes(1 + call % 200)
            let data = generator.bytes(1 + call % 150)
            let count = 1 + call % 170
            let derived = try KeyDerivation.counterMode(key: SecretBytes(key), fixedData: data, count: count)
            #expect(derived.exposed() == Self.deriveWithLibcrypto(key, data, count))
          }
        }
      }
      try await group.waitForAll()
    }
  }

  private static func deriveWithLibcrypto(_ key: [UInt8], _ fixedData: [UInt8], _ count: Int) -> [UInt8] {
    let method = unsafe EVP_KDF_fetch(nil, "KBKDF", nil)
    let context = unsafe EVP_KDF_CTX_new(method)
    defer {
      unsafe EVP_KDF_CTX_free(context)
      unsafe EVP_KDF_free(method)
    }
    var output = [UInt8](repeating: 0, count: count)
    unsafe key.withUnsafeBytes { key in
      unsafe fixedData.withUnsafeBytes { fixedData in
        var parameters = ParameterList()
        parameters.add("mode", text: "counter")
        parameters.add("mac", text: "HMAC")
        parameters.add("digest", text: "SHA256")
        parameters.add("use-l", number: 0)
        parameters.add("use-separator", number: 0)
        unsafe parameters.add("key", bytes: key)
        unsafe parameters.add("info", bytes: fixedData)
        _ = unsafe parameters.withPointer { unsafe EVP_KDF_derive(context, &output, count, $0) }
      }
    }
    return output
  }

  /// A context whose key was forgotten authenticates as one that never had a key.
  @Test func nothingIsLeftOfAForgottenKey() throws {
    func code(_ context: MACContext) throws -> [UInt8] {
      var code = [UInt8](repeating: 0, count: 32)
      try unsafe code.withUnsafeMutableBytes { try unsafe context.finish(into: $0) }
      return code
    }
    let context = try MACContext.keyless()
    try unsafe [UInt8](repeating: 7, count: 100).withUnsafeBytes { key in
      try unsafe context.restart(key: key)
      try unsafe context.update(key)
    }
    try context.forgetKey()
    let other = try MACContext.keyless()
    try other.restart()
    let expected = try code(other)
    #expect(try code(context) == expected)
    try context.restart()
    #expect(try code(context) == expected)
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
