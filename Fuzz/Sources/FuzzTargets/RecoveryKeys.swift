import Cryptography

@testable import KeyManagement

/// What was typed; and when the first byte is odd, a key whose text is typed in the way that the bytes after it say.
func fuzzRecoveryKey(_ bytes: [UInt8]) {
  checkTyped(bytes)
  guard bytes.count > RecoveryKey.size, bytes[0] & 1 == 1 else { return }
  let key = Array(bytes[1...RecoveryKey.size])
  let text = exposed(must("a text") { try RecoveryKey(SecretBytes(key)).text() })
  precondition(text.count == 44)
  let spelled = spelled(text, ways: bytes[(RecoveryKey.size + 1)...])
  do {
    let read = try RecoveryKey(parsing: SecretBytes(spelled))
    precondition(exposed(read.secret) == key, "all spellings are of one key")
    precondition(spelled.count <= RecoveryKey.longestText)
  } catch {
    precondition(spelled.count > RecoveryKey.longestText, "a key is read however it is spelled")
  }
}

/// What is accepted is, its separators aside, the text of the key that it gives.
private func checkTyped(_ bytes: [UInt8]) {
  guard let key = try? RecoveryKey(parsing: SecretBytes(bytes)) else { return }
  precondition(bytes.count <= RecoveryKey.longestText)
  let text = exposed(must("a text") { try key.text() }).filter { $0 != UInt8(ascii: "-") }
  let typed = bytes.filter { !"- \t\r\n".utf8.contains($0) }
  precondition(text.count == RecoveryKey.characterCount && typed.count == text.count)
  for (typed, digit) in zip(typed, text) { precondition(spellings(of: digit).contains(typed)) }
}

private func spellings(of digit: UInt8) -> [UInt8] {
  switch digit {
  case UInt8(ascii: "0"): Array("0Oo".utf8)
  case UInt8(ascii: "1"): Array("1IiLl".utf8)
  case UInt8(ascii: "A")...UInt8(ascii: "Z"): [digit, digit + 32]
  default: [digit]
  }
}

/// The text, each character in one of its spellings and some with separators before.
private func spelled(_ text: [UInt8], ways: ArraySlice<UInt8>) -> [UInt8] {
  var ways = ways
  var result: [UInt8] = []
  for character in text {
    let way = ways.popFirst() ?? 0
    result += [UInt8](repeating: Array("- \t\r\n".utf8)[Int(way) % 5], count: Int(way >> 3) % 8)
    let spellings = spellings(of: character)
    result.append(spellings[Int(way >> 6) % spellings.count])
  }
  return result
}

private func exposed(_ secret: borrowing SecretBytes) -> [UInt8] { unsafe secret.withBytes { unsafe Array($0) } }
