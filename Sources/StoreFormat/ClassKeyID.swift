/// The class key identifier: a random number, unique among all keys that a keybag has or remembers.
///
/// A key keeps its identifier when it is wrapped again. Keybags of one store, its copies and exports included,
/// therefore mean the same key by it.
package struct ClassKeyID: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  /// Not 0.
  package let rawValue: UInt32

  /// - Returns: `nil` for 0.
  package init?(rawValue: UInt32) {
    guard rawValue != 0 else { return nil }
    self.rawValue = rawValue
  }

  /// Eight hexadecimal digits.
  package var description: String {
    let digits = String(rawValue, radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
  }
}
