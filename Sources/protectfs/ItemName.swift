import ProtectfsIO
import StoreFormat

/// What a user calls one of several items: its name, or the first digits of its identity.
struct ItemName {
  let text: String

  /// Whether an item is meant.
  func means(_ id: [UInt8], _ label: String) -> Bool {
    let digits = text.lowercased()
    return label == text || digits.count >= 4 && id.hexadecimal.hasPrefix(digits)
  }

  /// The one item that is meant.
  ///
  /// - Parameters:
  ///   - found: those that are.
  ///   - kind: what they are called.
  ///   - list: the command that shows all.
  func one<Item>(of found: [Item], _ kind: String, shownBy list: String) throws(CommandFailure) -> Item {
    guard let first = found.first else {
      throw CommandFailure(.failure, "there is no \(kind) '\(text)'; 'protectfs \(list)' shows those there are")
    }
    guard found.count == 1 else {
      throw CommandFailure(
        .failure, "'\(text)' may mean \(found.count) \(kind)s; give more digits of its identity")
    }
    return first
  }

  /// The one host of a store that is meant.
  func host(in record: KeybagRecord) throws(CommandFailure) -> KeybagRecord.Protector {
    let found = record.protectors.filter { $0.method.host != nil && means($0.id, $0.label) }
    return try one(of: found, "host", shownBy: "host list")
  }
}
