import ProtectfsPolicy

/// The parsed bytes of `.protectfs/hosts/ID.request`, with which a machine asks to become a host of the store.
///
/// The byte table is in Documentation/FORMAT.md, section 19.
package struct HostRequestRecord: Sendable, Equatable {
  /// The first 8 bytes.
  package static let magic = Array("protkreq".utf8)
  /// The version that this module reads and writes.
  package static let version: UInt16 = 1
  /// The maximum length of a record, in bytes.
  package static let longest = 8 + 2 + 16 + 16 + 1 + KeybagRecord.Protector.longestLabel + 1 + 40 + 32

  /// The store's identity.
  package let storeID: StoreID
  /// The host's identity, 16 random bytes.
  package let id: [UInt8]
  /// The name that users see.
  package let label: String
  /// The classes that the host asks for, sorted by their numbers.
  package let classes: [ProtectionClass]
  /// The host key, wrapped under a key that the pairing code gives, 40 bytes.
  package let wrappedKey: [UInt8]
  /// HMAC-SHA256 over ``bytesBeforeTag``, under another key that the pairing code gives.
  package var tag: [UInt8]

  /// A record whose tag is still zeros.
  package init(storeID: StoreID, id: [UInt8], label: String, classes: [ProtectionClass], wrappedKey: [UInt8]) {
    self.storeID = storeID
    self.id = id
    self.label = label
    self.classes = classes
    self.wrappedKey = wrappedKey
    tag = [UInt8](repeating: 0, count: 32)
  }

  /// Parses a record. The caller checks the tag before it uses anything from it.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .hostRequest)
    try reader.readBeginning(magic: Self.magic, version: Self.version)
    storeID = try reader.readStoreID()
    id = try reader.read(16, "identity of a host")
    label = try reader.readLabel()
    classes = try reader.readHostClasses()
    wrappedKey = try reader.read(40, "wrapped host key")
    tag = try reader.read(32, "tag")
    try reader.finish()
  }

  /// The bytes that the tag authenticates.
  package var bytesBeforeTag: [UInt8] {
    var bytes = Self.magic
    bytes.append(integer: Self.version)
    bytes += storeID.bytes + id + [UInt8(label.utf8.count)] + label.utf8
    return bytes + [classes.hostBits] + wrappedKey
  }

  /// The record as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}

/// The parsed bytes of a host's own file, `UUID.host`, but for the delivery key, 32 bytes that follow them.
///
/// The byte table is in Documentation/FORMAT.md, section 19.
package struct HostRecord: Sendable, Equatable {
  /// The first 8 bytes.
  package static let magic = Array("protkhst".utf8)
  /// The version that this module reads and writes.
  package static let version: UInt16 = 1
  /// The length of a record, in bytes.
  package static let size = 8 + 2 + 16 + 16 + 35 + 40

  /// The store's identity.
  package let storeID: StoreID
  /// The host's identity, 16 random bytes.
  package let id: [UInt8]
  /// How the host's passcode is stretched.
  package var derivation: KeybagRecord.PasscodeDerivation
  /// The host key, wrapped under the host's passcode key, 40 bytes.
  package var wrappedKey: [UInt8]

  package init(storeID: StoreID, id: [UInt8], derivation: KeybagRecord.PasscodeDerivation, wrappedKey: [UInt8]) {
    self.storeID = storeID
    self.id = id
    self.derivation = derivation
    self.wrappedKey = wrappedKey
  }

  /// Parses a record.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .host)
    try reader.readBeginning(magic: Self.magic, version: Self.version)
    storeID = try reader.readStoreID()
    id = try reader.read(16, "identity of a host")
    derivation = try reader.readPasscodeDerivation()
    wrappedKey = try reader.read(40, "wrapped host key")
    try reader.finish()
  }

  /// The record as it is stored.
  package var bytes: [UInt8] {
    var bytes = Self.magic
    bytes.append(integer: Self.version)
    return bytes + storeID.bytes + id + derivation.bytes + wrappedKey
  }
}
