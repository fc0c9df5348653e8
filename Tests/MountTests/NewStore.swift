import Contract
import Cryptography
import MountDaemon
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// The result of `init`, kept to be written into any number of directories, since scrypt takes most of the time of
/// creating it.
struct NewStore: Sendable {
  let recoveryKey: String
  private let deviceKey, rootRecord: [UInt8]
  /// The store's own files, by name.
  private let files: [PathName: [UInt8]]

  private static let made = Mutex<[ProtectionClass: NewStore]>([:])
  private static let record: PathName = "user.cprotect"

  /// A store with the same keys each time.
  static func shared(_ defaultClass: ProtectionClass) throws -> NewStore {
    if let store = made.withLock({ $0[defaultClass] }) { return store }
    let store = try NewStore(defaultClass)
    made.withLock { $0[defaultClass] = store }
    return store
  }

  /// Creates one like `init`, but with the lowest cost for its passcode that the format permits.
  init(_ defaultClass: ProtectionClass) throws {
    let directory = try TemporaryDirectory.make()
    defer { TemporaryDirectory.remove(directory) }
    let (backing, deviceKey) = (directory.appending("backing"), directory.appending("device.key"))
    try backing.makeDirectory(mode: 0o700)
    let made = try Store.create(
      in: backing.description, defaultClass: defaultClass, authenticatesContents: TestedStores.areAuthenticated,
      passcode: SecretBytes(Array(Volume.passcode.utf8)), eraseAfter: nil, deviceKeyFile: deviceKey.description,
      cost: Volume.lowestCost)
    recoveryKey = String(decoding: made.recoveryKey.text.bytes, as: UTF8.self)
    self.deviceKey = try deviceKey.contents()
    rootRecord = try backing.extendedAttribute(Self.record)
    let own = backing.appending(NameEncoding.storeDirectory)
    files = try Dictionary(
      uniqueKeysWithValues: own.names().map { ($0, try own.appending(bytes: Array($0.bytes)).contents()) })
  }

  /// Writes the store into an empty directory, and its device key.
  func write(to backing: PathName, deviceKey path: PathName) throws {
    let own = backing.appending(NameEncoding.storeDirectory)
    try own.makeDirectory(mode: 0o700)
    for (name, bytes) in files { try own.appending(bytes: Array(name.bytes)).write(bytes, mode: 0o600) }
    try backing.setExtendedAttribute(Self.record, to: rootRecord)
    try path.write(deviceKey, mode: 0o600)
  }
}
