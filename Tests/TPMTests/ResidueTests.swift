import Cryptography
import TPM
import TestVectors
import Testing

extension TPMTests {
  /// libtss2's own copies are wiped too, in its context and in freed memory.
  @Suite("Residue") struct ResidueTests {
    @Test func nothingStaysInMemory() throws {
      var generator = RepeatableGenerator(seed: UInt64.random(in: 0...UInt64.max))
      let secret = HiddenNeedle(turned: generator.bytes(32))
      let authorization = HiddenNeedle(turned: generator.bytes(32))
      let wrong = HiddenNeedle(turned: generator.bytes(32))
      let machine = try SoftwareTPM()
      do {
        let tpm = try TPM(tcti: machine.tcti)
        try use(tpm, secret, authorization, wrong)
        for needle in [secret, authorization, wrong] { #expect(try needle.places() == []) }
      }
      for needle in [secret, authorization, wrong] { #expect(try needle.places() == []) }
    }

    /// Seals and unseals. A secret that is still held is found once meanwhile.
    private func use(
      _ tpm: borrowing TPM, _ secret: HiddenNeedle, _ authorization: HiddenNeedle, _ wrong: HiddenNeedle
    ) throws {
      let value: SecretBytes? = reveal(authorization)
      let object = try tpm.seal(reveal(secret), authorization: value)
      #expect(try secret.places() == [])
      #expect(try authorization.places().count == 1)
      let opened = try tpm.unseal(object, authorization: value)
      #expect(try secret.places().count == 1)
      #expect(try authorization.places().count == 1)
      let isSame = opened == reveal(secret)
      #expect(isSame)
      #expect(throws: TPMError.wrongAuthorization) { _ = try tpm.unseal(object, authorization: reveal(wrong)) }
      #expect(try wrong.places() == [])
    }

    private func reveal(_ needle: HiddenNeedle) -> SecretBytes {
      var bytes = SecretBytes(count: needle.count)
      unsafe bytes.withMutableBytes { bytes in
        for index in bytes.indices { unsafe bytes[index] = needle[index] }
      }
      return bytes
    }
  }
}
