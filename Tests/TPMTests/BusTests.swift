import Cryptography
import Foundation
import TPM
import TestVectors
import Testing

extension TPMTests {
  @Suite("On the bus") struct BusTests {
    /// A TCTI in between records the communication between this process and the TPM (`tss2-tcti-pcap(7)`).
    @Test func secretsAreEncrypted() throws {
      let machine = try SoftwareTPM()
      let recording = machine.directory + "/bus.pcap"
      unsafe setenv("TCTI_PCAP_FILE", recording, 1)
      defer { unsafe unsetenv("TCTI_PCAP_FILE") }
      do {
        let tpm = try TPM(tcti: "pcap:" + machine.tcti)
        for authorization in [nil, TPMTests.authorization] {
          let object = try tpm.seal(SecretBytes(TPMTests.secret), authorization: authorization.map { SecretBytes($0) })
          let secret = try tpm.unseal(object, authorization: authorization.map { SecretBytes($0) })
          #expect(secret.exposed() == TPMTests.secret)
        }
        let object = try tpm.seal(SecretBytes(TPMTests.secret), authorization: SecretBytes(TPMTests.authorization))
        #expect(throws: TPMError.wrongAuthorization) {
          _ = try tpm.unseal(object, authorization: SecretBytes(Array("a wrong authorization".utf8)))
        }
      }
      let bytes = try Data(contentsOf: URL(fileURLWithPath: recording))
      #expect(bytes.count > 4096)
      // The template of the sealed object is there in plain.
      #expect(bytes.range(of: Data(Hex("0008 000B 00000052 0000 0010").bytes)) != nil)
      for secret in [TPMTests.secret, TPMTests.authorization, Array("a wrong authorization".utf8)] {
        for start in stride(from: 0, to: secret.count - 8, by: 8) {
          #expect(bytes.range(of: Data(secret[start..<(start + 8)])) == nil)
        }
      }
    }

    /// Without a name, the TCTI in the environment is used.
    @Test func theEnvironmentNamesATPM() throws {
      let machine = try SoftwareTPM()
      unsafe setenv("PROTECTFS_TCTI", machine.tcti, 1)
      defer { unsafe unsetenv("PROTECTFS_TCTI") }
      #expect(try TPM().lockout().failures == 0)
    }
  }
}
