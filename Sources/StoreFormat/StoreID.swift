/// The identity of a store: a UUID (RFC 9562), generated at `init`, which is in plain in the keybag and is the salt of
/// the store's keys.
package struct StoreID: Hashable, Sendable, CustomStringConvertible {
  /// The 16 bytes, in the order of the text.
  package let bytes: [UInt8]

  /// The identity with these bytes; `nil` unless there are 16.
  package init?(bytes: [UInt8]) {
    guard bytes.count == 16 else { return nil }
    self.bytes = bytes
  }

  /// The identity with this text: 8-4-4-4-12 hexadecimal digits.
  package init?(_ text: some StringProtocol) {
    let groups = text.split(separator: "-", omittingEmptySubsequences: false)
    guard groups.map(\.utf8.count) == [8, 4, 4, 4, 12] else { return nil }
    let digits = groups.joined().compactMap(\.hexDigitValue)
    guard digits.count == 32 else { return nil }
    bytes = (0..<16).map { UInt8(digits[2 * $0] << 4 | digits[2 * $0 + 1]) }
  }

  package var description: String {
    let digits = Array("0123456789abcdef")
    var text = ""
    for (index, byte) in bytes.enumerated() {
      if [4, 6, 8, 10].contains(index) { text.append("-") }
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 15)])
    }
    return text
  }
}
