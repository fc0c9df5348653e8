import Cryptography
import Foundation
import ProtectfsIO
import StoreFormat
import SystemPackage
import TestVectors

@testable import KeyManagement

/// The initial keys of a store. Creating them takes scrypt, which would take most of a test's time.
struct StoreBeginning: Sendable {
  let deviceKey, recoveryKey: [UInt8]
  let keybag: Keybag
  /// The store's own files, by name.
  private let files: [String: [UInt8]]

  /// The keys of all stores that need none of their own.
  static let ofAll = Result { try StoreBeginning() }

  init() throws {
    let id = try StoreID.random()
    let deviceKey = try VolumeDeviceKey(SecretBytes(randomCount: VolumeDeviceKey.size))
    let new = try Keybag.create(
      passcode: SecretBytes(BuiltStore.passcode), deviceKey: deviceKey, storeID: id, cost: BuiltStore.cost)
    let path = FileManager.default.temporaryDirectory.path + "/protectfs-test-\(UUID().uuidString)"
    let own = path + "/.protectfs"
    try FileManager.default.createDirectory(atPath: own, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: path) }
    try KeybagFile(backing: Descriptor.open(PathName(path), [.readOnly, .directory]))
      .commit(new.change)
    files = try Dictionary(
      uniqueKeysWithValues: FileManager.default.contentsOfDirectory(atPath: own).map { name in
        (name, try Array(Data(contentsOf: URL(fileURLWithPath: "\(own)/\(name)"))))
      })
    keybag = new.keybag
    recoveryKey = try new.recoveryKey.text().exposed()
    self.deviceKey = deviceKey.secret.exposed()
  }

  /// Writes the store's own files into a backing directory.
  func write(to backing: String) throws {
    for (name, bytes) in files {
      let file = try Descriptor.open(
        PathName("\(backing)/.protectfs/\(name)"), [.writeOnly, .create, .exclusive], mode: 0o600)
      try file.write(bytes)
    }
  }
}
