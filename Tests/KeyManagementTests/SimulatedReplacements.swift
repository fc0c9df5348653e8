import Cryptography
import ProtectfsIO
import SimulatedDisk

@testable import KeyManagement

// Keybags that take the place of one that they were not made from.
extension KeyChange {
  static let replacements: [KeyChange] = [
    KeyChange("import the first keybag in place of it", needs: [2, 3, 5]) { keys, file, _ in
      let exported = try keys.first()
      let found = try file.authenticKeybags(beside: exported)
      let new = try exported.replacement(over: found, passcode: "new".secret, cost: TestStore.cost)
      try keys.recoveryKeys.append(new.recoveryKey.text().exposed())
      try file.commit(new.change)
      return new.keybag
    },
    restore("restore the keybag before", exchanging: true),
    restore("restore the keybag before, where names are not exchanged", exchanging: false),
  ]

  /// - Parameter exchanging: whether the store's file system exchanges names.
  private static func restore(_ name: String, exchanging: Bool) -> KeyChange {
    KeyChange(name, exchanges: true, needs: []) { keys, file, _ in
      keys.disk.exchangesNames = exchanging
      defer { keys.disk.exchangesNames = true }
      try file.finishRestoration()
      let previous = try Keybag(parsing: file.readPrevious(), deviceKey: keys.deviceKey)
      let found = try file.authenticKeybags(of: previous.storeID, keys.deviceKey)
      if found.bytes == previous.bytes { return nil }
      try found.requireNoneErased()
      // Without its secret it is of no use.
      do { _ = try file.effaceableSecret(of: previous) } catch KeyManagementError.effaceableSecretMissing { return nil }
      try file.restore(previous, over: found)
      return previous
    }
  }
}
