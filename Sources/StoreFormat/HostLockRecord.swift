/// The parsed bytes of `.protectfs/lock`, with which a host has all others lock, or of `.protectfs/hosts/ID.locked`,
/// with which one says that it has.
///
/// The byte table is in Documentation/FORMAT.md, section 19.
package struct HostLockRecord: Sendable, Equatable {
  /// The first 8 bytes.
  package static let magic = Array("protklck".utf8)
  /// The version that this module reads and writes.
  package static let version: UInt16 = 1
  /// The length of a record, in bytes.
  package static let size = 8 + 2 + 16 + 8 + 16 + 1 + 32
  /// In place of a host's identity: a machine that opens all of the store, or, where one has locked, the one that
  /// writes it.
  package static let none = [UInt8](repeating: 0, count: 16)

  /// What a record says.
  package enum Content: UInt8, Sendable, CaseIterable {
    /// Lock classes A and B, class CX after its own period.
    case lock = 0
    /// Lock classes A, B and CX.
    case lockInactive = 1
    /// Lock every class but D.
    case lockEveryClass = 2
    /// The host has locked.
    case locked = 3
  }

  /// The store's identity.
  package let storeID: StoreID
  /// The request's identity, a random number but 0.
  package let request: UInt64
  /// Whose record it is: a host's identity, 16 bytes, or ``none``.
  package let host: [UInt8]
  /// What it says.
  package let content: Content
  /// HMAC-SHA256 over ``bytesBeforeTag``.
  package var tag = [UInt8](repeating: 0, count: 32)

  /// A record whose tag is still zeros.
  package init(storeID: StoreID, request: UInt64, host: [UInt8], content: Content) {
    self.storeID = storeID
    self.request = request
    self.host = host
    self.content = content
  }

  /// Parses a record. The caller checks the tag before it uses anything from it.
  package init(parsing bytes: [UInt8]) throws(FormatError) {
    var reader = ByteReader(bytes, record: .hostLock)
    try reader.readBeginning(magic: Self.magic, version: Self.version)
    storeID = try reader.readStoreID()
    request = try reader.readInteger("request")
    try reader.require(request != 0, "request", "is 0")
    host = try reader.read(16, "identity of a host")
    guard let content = Content(rawValue: try reader.readInteger("content")) else {
      throw reader.malformed("content", "is unknown")
    }
    self.content = content
    tag = try reader.read(32, "tag")
    try reader.finish()
  }

  /// The bytes that the tag authenticates.
  package var bytesBeforeTag: [UInt8] {
    var bytes = Self.magic
    bytes.append(integer: Self.version)
    bytes += storeID.bytes
    bytes.append(integer: request)
    return bytes + host + [content.rawValue]
  }

  /// The record as it is stored.
  package var bytes: [UInt8] { bytesBeforeTag + tag }
}
