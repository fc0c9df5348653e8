import Testing

@testable import TPM

@Suite("A TPM that is not there") struct AvailabilityTests {
  @Test(arguments: [
    "swtpm:path=/tmp/protectfs-no-such-socket", "device:/tmp/protectfs-no-such-device", "no-such-tcti", "", "\u{0}",
    "device:", "device:/dev/null/tpm",
  ]) func unavailable(_ name: String) {
    let error = #expect(throws: TPMError.self) { _ = try TPM(tcti: name) }
    guard case .unavailable = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test func theReasonIsTold() {
    let error = #expect(throws: TPMError.self) { _ = try TPM(tcti: "device:/dev/no-such-tpm") }
    #expect(
      error?.description
        == """
        no TPM can be used: there is no /dev/no-such-tpm: the machine has no TPM 2.0, or its firmware has it turned off
        """)
  }

  @Test func refusalsAreDescribed() {
    let error = TPMError.library(operation: "seal a secret", code: 0x143)
    #expect(
      error.description == "the TPM cannot seal a secret: tpm:error(2.0): command code not supported (0x143)")
  }

  /// Codes of the TPM for a handle, a parameter and a session (TPM 2.0 Library, part 2, section 6.6).
  @Test func responseCodes() {
    #expect(Response(0).isSuccess)
    for code: UInt32 in [0x08E, 0x98E, 0x9A2, 0x18E, 0xC098E] { #expect(Response(code).isWrongAuthorization) }
    for code: UInt32 in [0x921, 0xC0921] { #expect(Response(code).isLockout) }
    for code: UInt32 in [0x1DF, 0x2DF, 0x1D5] { #expect(Response(code).isBadParameter) }
    for code: UInt32 in [0x18B, 0x98E, 0x921, 0x101, 0xA000A, 0x7001B] { #expect(!Response(code).isBadParameter) }
    for code: UInt32 in [0xA000A, 0xA0008] { #expect(Response(code).isTransport) }
    for code: UInt32 in [0xA008E, 0x7008E, 0x921, 0x1DF] { #expect(!Response(code).isWrongAuthorization) }
  }
}
