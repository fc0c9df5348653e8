import KeyManagement
import ProtectfsIO
import StoreFormat

/// Keybags, read without any key.
package enum StoreSummary {
  /// The keybag in a backing directory, and what it says; nothing of it is verified.
  package static func readKeybag(_ path: String) throws -> (bytes: [UInt8], record: KeybagRecord) {
    let backing = try Store.open(path)
    do throws(KeyManagementError) {
      let bytes = try KeybagFile(backing: backing).read()
      return (bytes, try Keybag.parse(bytes))
    } catch .keybagMissing {
      throw missingKeybag(in: backing, path: path)
    }
  }

  /// What the keybag in a backing directory says; nothing of it is verified.
  package static func read(_ path: String) throws -> KeybagRecord { try readKeybag(path).record }

  /// Finds out that there is a store that this version understands, before a secret is asked for.
  package static func requireStore(_ path: String) throws { _ = try read(path) }

  /// What to say where there is no keybag: that there is no store, unless the keybag's second copy shows that there is.
  private static func missingKeybag(in backing: borrowing Descriptor, path: String) -> any Error {
    do throws(KeyManagementError) {
      _ = try KeybagFile(backing: backing).readPrevious()
      return KeyManagementError.keybagMissing
    } catch {
      return StoreError.noStore(path: path)
    }
  }
}

extension DeviceKey {
  /// The device key of the store that a keybag is of, with what this machine has as one of its hosts.
  package static func load(forKeybag bytes: [UInt8], file: String?) throws(KeyManagementError) -> VolumeDeviceKey {
    try load(for: Keybag.parse(bytes), file: file.map { PathName($0) })
  }
}

extension UnlockSecret {
  /// The device key of the store that a keybag is of. A recovery key has it, and needs no file.
  package func deviceKey(forKeybag bytes: [UInt8], file: String?) throws(KeyManagementError) -> VolumeDeviceKey {
    if let key = try recoveredDeviceKey(bytes) { return key }
    return try DeviceKey.load(forKeybag: bytes, file: file)
  }
}
