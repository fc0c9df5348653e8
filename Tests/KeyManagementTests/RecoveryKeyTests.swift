import Cryptography
import TestVectors
import Testing

@testable import KeyManagement

@Suite("Recovery keys") struct RecoveryKeyTests {
  static func text() throws -> String { try TestStore.read().recoveryText }

  private func parse(_ text: String) throws(KeyManagementError) -> [UInt8] {
    try RecoveryKey(parsing: text.secret).secret.exposed()
  }

  @Test func textIsReadBack() throws {
    for _ in 0..<200 {
      let key = try RecoveryKey()
      let text = String(decoding: try key.text().exposed(), as: UTF8.self)
      #expect(text.split(separator: "-").map(\.count) == [Int](repeating: 4, count: 9))
      #expect(try parse(text) == key.secret.exposed())
    }
  }

  @Test func lettersThatPeopleMistakeAreUnderstood() throws {
    let store = try TestStore.read()
    let text = store.recoveryText
    let expected = try #require(store.protectors[1].recoveryKey).bytes
    let variants = [
      text, text.lowercased(), text.filter { $0 != "-" }, " " + text.replacing("-", with: "  ") + "\r\n",
      text.replacing("0", with: "o"), text.replacing("1", with: "I"), text.replacing("1", with: "l"),
    ]
    for variant in variants { #expect(try parse(variant) == expected) }
  }

  /// Each character changed to each other one, and neighbours exchanged.
  @Test func typingErrorsAreFound() throws {
    let text = Array(try Self.text().filter { $0 != "-" })
    for position in text.indices {
      for other in "0123456789ABCDEFGHJKMNPQRSTVWXYZ" where other != text[position] {
        var typed = text
        typed[position] = other
        #expect(throws: KeyManagementError.recoveryKeyMistyped) { try parse(String(typed)) }
      }
      if position > 0, text[position] != text[position - 1] {
        var typed = text
        typed.swapAt(position, position - 1)
        #expect(throws: KeyManagementError.recoveryKeyMistyped) { try parse(String(typed)) }
      }
    }
  }

  @Test(arguments: ["", "-", "0", "U000-", "é"]) func otherTextsAreRefused(_ text: String) throws {
    #expect(throws: KeyManagementError.recoveryKeyMistyped) { try parse(text) }
    #expect(throws: KeyManagementError.recoveryKeyMistyped) { try parse(Self.text() + text + "0") }
    #expect(throws: KeyManagementError.recoveryKeyMistyped) { try parse(String(Self.text().dropLast()) + text) }
  }

  @Test func longTextsAreRefused() throws {
    let text = try Self.text() + String(repeating: " ", count: 256)
    #expect(throws: KeyManagementError.recoveryKeyMistyped) { try parse(text) }
  }
}
