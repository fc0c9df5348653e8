import Cryptography
import Testing

@testable import protectfs

/// Which new passcodes are warned of, and what is said.
struct PasscodeStrengthTests {
  private func weakness(_ passcode: String, _ limit: PasscodeStrength.Limit = .deviceKey) -> String? {
    PasscodeStrength(SecretBytes(Array(passcode.utf8))).weakness(limit)
  }

  @Test(
    arguments: [
      ("1", 10), ("aa", 26), ("ab", 676), ("abc", 676), ("111111", 10), ("123456", 100), ("1357", 10_000),
      ("4711", 1000),
      ("a1", 36 * 36), ("A1b", 62 * 62 * 62), ("é", 100), ("ä", 100), ("acegik", 308_915_776),
    ] as [(String, Double)])
  func whatIsLikeIt(_ passcode: String, _ count: Double) {
    #expect(PasscodeStrength(SecretBytes(Array(passcode.utf8))).candidates == count)
  }

  @Test(arguments: ["1", "ab", "0000", "4921", "294817", "abcdefgh", "12345678"])
  func quicklyGuessed(_ passcode: String) {
    #expect(weakness(passcode) != nil && weakness(passcode, .nothing) != nil)
  }

  @Test(arguments: ["correct horse battery staple", "Tr0ub4dor&3", "jkqwvz", "29481729481"])
  func strongEnough(_ passcode: String) {
    #expect(weakness(passcode) == nil && weakness(passcode, .nothing) == nil)
  }

  /// A TPM takes few wrong ones.
  @Test func numbersAreEnoughForATPM() {
    #expect(weakness("4921", .tpm) == nil && weakness("294817", .tpm) == nil)
    #expect(weakness("1", .tpm) != nil && weakness("1234", .tpm) != nil)
  }

  @Test func sentences() {
    #expect(
      weakness("294817")
        == "a passcode like this is one of 1 million: whoever has the backing directory and the device key guesses it "
        + "within 17 minutes; without the device key it cannot be guessed")
    #expect(
      weakness("ab", .nothing)
        == "a passcode like this is one of 676: whoever has the file guesses it within 1 second, with nothing but the "
        + "exported keybag")
  }
}
