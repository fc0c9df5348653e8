import KeyManagement
import StoreFormat

/// Keybags, read without any key.
enum StoreSummary {
  /// What a keybag says; nothing of it is verified.
  static func parse(_ bytes: [UInt8]) throws(KeyManagementError) -> KeybagRecord {
    do throws(FormatError) {
      return try KeybagRecord(parsing: bytes)
    } catch {
      switch error {
      case .malformed: throw .keybagMalformed(error)
      case .unsupportedVersion, .unknownFeatures: throw .unsupportedStore(error)
      }
    }
  }
}
