import Cryptography
import TPM
import TestVectors
import Testing

/// All tests that start a TPM, one at a time.
@Suite(.serialized, .timeLimit(.minutes(2)), .enabled(if: SoftwareTPM.isInstalled, "swtpm is not installed"))
struct TPMTests {
  static let secret = [UInt8](0..<32)
  static let authorization = Array("an authorization of thirty-two b".utf8)
}

extension TPMTests {
  @Suite("Sealing") struct SealTests {
    @Test(arguments: [1, 16, 32, 64, 127, 128]) func roundTrip(_ count: Int) throws {
      var generator = RepeatableGenerator(seed: UInt64(count))
      let secret = generator.bytes(count)
      let authorization = generator.bytes(min(count, 32))
      let machine = try SoftwareTPM()
      let objects = try seal(secret, authorization, to: machine)
      #expect(objects.plain.count <= 1024 && objects.protected.count <= 1024)
      // Through another connection, and twice.
      let tpm = try TPM(tcti: machine.tcti)
      for _ in 0..<2 {
        #expect(try tpm.unseal(objects.plain, authorization: nil).exposed() == secret)
        #expect(try tpm.unseal(objects.protected, authorization: SecretBytes(authorization)).exposed() == secret)
      }
    }

    private func seal(
      _ secret: [UInt8], _ authorization: [UInt8], to machine: borrowing SoftwareTPM
    ) throws -> (plain: [UInt8], protected: [UInt8]) {
      let tpm = try TPM(tcti: machine.tcti)
      return (
        try tpm.seal(SecretBytes(secret), authorization: nil),
        try tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
      )
    }

    @Test func noTwoObjectsAreAlike() throws {
      let machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      let first = try tpm.seal(SecretBytes(secret), authorization: nil)
      let second = try tpm.seal(SecretBytes(secret), authorization: nil)
      #expect(first != second && first.count == second.count)
    }

    @Test func zerosAtTheEndOfAnAuthorization() throws {
      let machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      let authorization = [UInt8](repeating: 7, count: 29) + [0, 0, 0]
      let object = try tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
      #expect(try tpm.unseal(object, authorization: SecretBytes(authorization)).exposed() == secret)
    }

    @Test func impossibleLengthsAreRefused() throws {
      let machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      for count in [0, 129, 256, 1000] {
        #expect(throws: TPMError.invalidLength("a secret to be sealed")) {
          _ = try tpm.seal(SecretBytes(count: count), authorization: nil)
        }
      }
      let object = try tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
      for count in [0, 33, 64, 1000] {
        #expect(throws: TPMError.invalidLength("an authorization")) {
          _ = try tpm.seal(SecretBytes(secret), authorization: SecretBytes(count: count))
        }
        #expect(throws: TPMError.invalidLength("an authorization")) {
          _ = try tpm.unseal(object, authorization: SecretBytes(count: count))
        }
      }
    }

    @Test func survivesARestart() throws {
      var machine = try SoftwareTPM()
      let objects = try seal(secret, authorization, to: machine)
      try machine.restart()
      let tpm = try TPM(tcti: machine.tcti)
      #expect(try tpm.unseal(objects.plain, authorization: nil).exposed() == secret)
      #expect(try tpm.unseal(objects.protected, authorization: SecretBytes(authorization)).exposed() == secret)
    }

    /// More than the TPM has room for at a time: three objects and three sessions.
    @Test func nothingIsLeftInTheTPM() throws {
      let machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      let object = try tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
      let altered = object.flippingBit(object.count * 8 - 1)
      for _ in 0..<8 {
        #expect(try tpm.unseal(object, authorization: SecretBytes(authorization)).exposed() == secret)
        #expect(throws: TPMError.foreign) { _ = try tpm.unseal(altered, authorization: SecretBytes(authorization)) }
        _ = try tpm.lockout()
      }
    }

    private var secret: [UInt8] { TPMTests.secret }
    private var authorization: [UInt8] { TPMTests.authorization }
  }
}
