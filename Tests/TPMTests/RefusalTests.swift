import Cryptography
import TPM
import TestVectors
import Testing

extension TPMTests {
  @Suite("Refusals") struct RefusalTests {
    @Test func wrongAuthorizationsAreCounted() throws {
      let machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      let object = try tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
      let before = try tpm.lockout()
      #expect(before.failures == 0 && !before.isInLockout)
      // swtpm's own.
      #expect(before.maximumFailures == 3 && before.interval == 1000 && before.recovery == 1000)
      #expect(throws: TPMError.wrongAuthorization) {
        _ = try tpm.unseal(object, authorization: SecretBytes(authorization.flippingBit(0)))
      }
      #expect(try tpm.lockout().failures == 1)
      #expect(try tpm.unseal(object, authorization: SecretBytes(authorization)).exposed() == secret)
      #expect(try tpm.lockout().failures == 1)
    }

    /// If only one of object and caller has an authorization, that is noticed without asking the TPM, which would count
    /// it.
    @Test func missingAuthorizationsAreNotCounted() throws {
      let machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      let plain = try tpm.seal(SecretBytes(secret), authorization: nil)
      let protected = try tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
      #expect(throws: TPMError.wrongAuthorization) {
        _ = try tpm.unseal(plain, authorization: SecretBytes(authorization))
      }
      #expect(throws: TPMError.wrongAuthorization) { _ = try tpm.unseal(protected, authorization: nil) }
      #expect(try tpm.lockout().failures == 0)
    }

    @Test func lockout() throws {
      let machine = try SoftwareTPM()
      try Administrator(of: machine).setLockout(maximumFailures: 2, interval: 3600)
      let objects = try lockOut(machine)
      try Administrator(of: machine).resetLockout()
      let tpm = try TPM(tcti: machine.tcti)
      #expect(try !tpm.lockout().isInLockout)
      #expect(try tpm.unseal(objects, authorization: SecretBytes(authorization)).exposed() == secret)
    }

    @Test func lockoutPassword() throws {
      let machine = try SoftwareTPM()
      #expect(try !TPM(tcti: machine.tcti).lockout().hasPassword)
      try Administrator(of: machine).setLockoutPassword("lockout")
      #expect(try TPM(tcti: machine.tcti).lockout().hasPassword)
    }

    /// Locks the TPM out, and returns the object whose authorization was guessed.
    private func lockOut(_ machine: borrowing SoftwareTPM) throws -> [UInt8] {
      let tpm = try TPM(tcti: machine.tcti)
      let plain = try tpm.seal(SecretBytes(secret), authorization: nil)
      let protected = try tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
      for bit in 0..<2 {
        #expect(throws: TPMError.wrongAuthorization) {
          _ = try tpm.unseal(protected, authorization: SecretBytes(authorization.flippingBit(bit)))
        }
      }
      for _ in 0..<2 {
        #expect(throws: TPMError.lockedOut) {
          _ = try tpm.unseal(protected, authorization: SecretBytes(authorization))
        }
      }
      let state = try tpm.lockout()
      #expect(state.isInLockout && state.failures == 2 && state.maximumFailures == 2 && state.interval == 3600)
      // An object without authorization is not subject to lockout, nor is sealing.
      #expect(try tpm.unseal(plain, authorization: nil).exposed() == secret)
      _ = try tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
      return protected
    }

    @Test(arguments: [false, true]) func alteredObjects(isProtected: Bool) throws {
      let machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      let object =
        try isProtected
        ? tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
        : tpm.seal(SecretBytes(secret), authorization: nil)
      var generator = RepeatableGenerator(seed: 1)
      for byte in object.indices {
        var altered = object
        altered[byte] ^= UInt8.random(in: 1...255, using: &generator)
        #expect("byte \(byte)") {
          _ =
            try isProtected
            ? tpm.unseal(altered, authorization: SecretBytes(authorization)) : tpm.unseal(altered, authorization: nil)
        } throws: { error in
          error as? TPMError == .foreign || error as? TPMError == .malformed
        }
      }
      // There were no guesses.
      #expect(try tpm.lockout().failures == 0)
    }

    @Test func otherTPMsObjects() throws {
      let (plain, protected) = try sealElsewhere()
      let machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      #expect(throws: TPMError.foreign) { _ = try tpm.unseal(plain, authorization: nil) }
      #expect(throws: TPMError.foreign) { _ = try tpm.unseal(protected, authorization: SecretBytes(authorization)) }
      #expect(try tpm.lockout().failures == 0)
    }

    private func sealElsewhere() throws -> ([UInt8], [UInt8]) {
      let machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      return (
        try tpm.seal(SecretBytes(secret), authorization: nil),
        try tpm.seal(SecretBytes(secret), authorization: SecretBytes(authorization))
      )
    }

    @Test func aTPMThatGoesAway() throws {
      var machine = try SoftwareTPM()
      let tpm = try TPM(tcti: machine.tcti)
      let object = try tpm.seal(SecretBytes(secret), authorization: nil)
      machine.stop()
      for _ in 0..<2 {
        let error = #expect(throws: TPMError.self) { _ = try tpm.unseal(object, authorization: nil) }
        guard case .unavailable = error else { throw try #require(error) }
      }
    }

    private var secret: [UInt8] { TPMTests.secret }
    private var authorization: [UInt8] { TPMTests.authorization }
  }
}
