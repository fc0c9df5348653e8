import TestVectors
import Testing

@testable import Cryptography

@Suite("The wrapping of class B") struct OnePassDiffieHellmanTests {
  struct AgreementVector: Decodable, Sendable {
    let name: String
    let privateKey, publicKey, shared: Hex
  }

  struct Vector: Decodable, Sendable {
    let name: String
    let classPrivateKey, classPublicKey, ephemeralPrivateKey, fileKey, wrapped: Hex
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/x25519", as: AgreementVector.self))
  func agreement(_ vector: AgreementVector) throws {
    func agree(_ publicKey: [UInt8]) throws -> SecretBytes {
      try OnePassDiffieHellman.sharedSecret(SecretBytes(vector.privateKey.bytes), publicKey)
    }
    #expect(try agree(vector.publicKey.bytes).exposed() == vector.shared.bytes)
    #expect(try agree(vector.publicKey.bytes.flippingBit(0)).exposed() != vector.shared.bytes)
  }

  /// Points whose order divides 8, and their other encodings (https://cr.yp.to/ecdh.html, "validate").
  @Test(arguments: [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  ])
  func smallOrderIsRefused(_ publicKey: String) throws {
    let privateKey = try SecretBytes(randomCount: 32)
    #expect(throws: CryptographyError.invalidPublicKey) {
      _ = try OnePassDiffieHellman.sharedSecret(privateKey, Hex(publicKey).bytes)
    }
    #expect(throws: CryptographyError.invalidPublicKey) {
      _ = try OnePassDiffieHellman.wrap(SecretBytes(count: 32), for: Hex(publicKey).bytes)
    }
    #expect(throws: CryptographyError.invalidPublicKey) {
      _ = try OnePassDiffieHellman.unwrap(
        Hex(publicKey).bytes + [UInt8](repeating: 0, count: 40), privateKey: privateKey,
        publicKey: OnePassDiffieHellman.publicKey(of: privateKey))
    }
  }

  @Test(arguments: try VectorFile.read("CryptographyTests/one-pass-dh", as: Vector.self))
  func vector(_ vector: Vector) throws {
    let privateKey = SecretBytes(vector.classPrivateKey.bytes)
    let publicKey = try OnePassDiffieHellman.publicKey(of: privateKey)
    #expect(publicKey == vector.classPublicKey.bytes)
    let ephemeral = try OnePassDiffieHellman.KeyPair(privateKey: SecretBytes(vector.ephemeralPrivateKey.bytes))
    let fileKey = SecretBytes(vector.fileKey.bytes)
    #expect(try OnePassDiffieHellman.wrap(fileKey, for: publicKey, ephemeral: ephemeral) == vector.wrapped.bytes)
    let unwrapped = try OnePassDiffieHellman.unwrap(
      vector.wrapped.bytes, privateKey: privateKey, publicKey: publicKey)
    #expect(unwrapped.exposed() == fileKey.exposed())
    for bit in stride(from: 0, to: 72 * 8, by: 5) {
      #expect(throws: CryptographyError.wrongKey) {
        _ = try OnePassDiffieHellman.unwrap(
          vector.wrapped.bytes.flippingBit(bit), privateKey: privateKey, publicKey: publicKey)
      }
    }
    #expect(throws: CryptographyError.wrongKey) {
      _ = try OnePassDiffieHellman.unwrap(
        vector.wrapped.bytes, privateKey: SecretBytes(randomCount: 32), publicKey: publicKey)
    }
  }

  @Test func eachWrappingIsFresh() throws {
    let pair = try OnePassDiffieHellman.KeyPair()
    let fileKey = try SecretBytes(randomCount: 32)
    let first = try OnePassDiffieHellman.wrap(fileKey, for: pair.publicKey)
    let second = try OnePassDiffieHellman.wrap(fileKey, for: pair.publicKey)
    #expect(first.prefix(32) != second.prefix(32))
    let unwrapped = try OnePassDiffieHellman.unwrap(second, privateKey: pair.privateKey, publicKey: pair.publicKey)
    #expect(unwrapped.exposed() == fileKey.exposed())
  }
}
