import KeyManagement
import ProtectfsIO
import StoreFormat

/// Keybags, read without any key.
package enum StoreSummary {
  /// What a keybag says; nothing of it is verified.
  package static func parse(_ bytes: [UInt8]) throws(KeyManagementError) -> KeybagRecord {
    do throws(FormatError) {
      return try KeybagRecord(parsing: bytes)
    } catch {
      switch error {
      case .malformed: throw .keybagMalformed(error)
      case .unsupportedVersion, .unknownFeatures: throw .unsupportedStore(error)
      }
    }
  }

  /// What the keybag in a backing directory says; nothing of it is verified.
  package static func read(_ path: String) throws -> KeybagRecord {
    let backing = try Store.open(path)
    do throws(KeyManagementError) {
      return try parse(KeybagFile(backing: backing).read())
    } catch .keybagMissing {
      throw missingKeybag(in: backing, path: path)
    }
  }

  /// Finds out that there is a store that this version understands, before a secret is asked for.
  package static func requireStore(_ path: String) throws { _ = try read(path) }

  /// What to say where there is no keybag: that there is no store, unless the keybag's second copy shows that there is.
  package static func missingKeybag(in backing: borrowing Descriptor, path: String) -> any Error {
    do throws(KeyManagementError) {
      _ = try KeybagFile(backing: backing).readPrevious()
      return KeyManagementError.keybagMissing
    } catch {
      return StoreError.noStore(path: path)
    }
  }
}
