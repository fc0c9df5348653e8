import Cryptography
import TestVectors
import Testing

@testable import TPM

extension TPMTests {
  @Suite("Storage keys") struct StorageKeyTests {
    /// The key made persistent from the template is the one that is derived from it.
    @Test func persistentKeysComeAndGo() throws {
      let machine = try SoftwareTPM()
      let derived = try seal(machine)
      try Administrator(of: machine).makePersistent(PublicArea.storageKey)
      try unseal(derived, machine)
      let persistent = try seal(machine)
      try Administrator(of: machine).removePersistent()
      try unseal(persistent, machine)
    }

    /// The owner's password is needed to derive a key, but not if a persistent key exists.
    @Test func anOwnerPasswordNeedsAPersistentKey() throws {
      let machine = try SoftwareTPM()
      let object = try seal(machine)
      do {
        let administrator = try Administrator(of: machine)
        try administrator.makePersistent(PublicArea.storageKey)
        try administrator.setOwnerPassword("owner")
      }
      try unseal(object, machine)
      try unseal(seal(machine), machine)
      let other = try SoftwareTPM()
      try Administrator(of: other).setOwnerPassword("owner")
      let error = #expect(throws: TPMError.self) { _ = try seal(other) }
      guard case .unavailable(let reason) = error else { throw try #require(error) }
      #expect(reason.hasPrefix("its owner hierarchy has a password"))
    }

    /// Keys of other forms are skipped: RSA, a key that may leave the TPM, and a key with an authorization.
    @Test(arguments: [0, 1, 2]) func otherPersistentKeysArePassedOver(_ kind: Int) throws {
      let machine = try SoftwareTPM()
      let object = try seal(machine)
      switch kind {
      case 0: try Administrator(of: machine).makePersistent(Self.rsaStorageKey)
      case 1: try Administrator(of: machine).makePersistent(PublicArea.storageKey.flippingBit(8 * 8 + 2))
      default: try Administrator(of: machine).makePersistent(PublicArea.storageKey, authorization: [1, 2, 3])
      }
      try unseal(object, machine)
      let other = try seal(machine)
      try Administrator(of: machine).removePersistent()
      try unseal(other, machine)
    }

    /// The template of the storage root key for RSA with 2048 bits.
    private static let rsaStorageKey: [UInt8] =
      Hex("001A 0001 000B 00030472 0000 0006 0080 0043 0010 0800 00000000 0000").bytes

    private func seal(_ machine: borrowing SoftwareTPM) throws -> [UInt8] {
      try TPM(tcti: machine.tcti).seal(
        SecretBytes(TPMTests.secret), authorization: SecretBytes(TPMTests.authorization))
    }

    private func unseal(_ object: [UInt8], _ machine: borrowing SoftwareTPM) throws {
      let tpm = try TPM(tcti: machine.tcti)
      #expect(
        try tpm.unseal(object, authorization: SecretBytes(TPMTests.authorization)).exposed() == TPMTests.secret)
    }
  }
}
