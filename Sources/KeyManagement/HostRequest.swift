import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// What a machine that asks to become a host prints, and whoever accepts it types: 20 random bytes in the text form of
/// a recovery key. With it each of the two knows the other: no one else can have made the request, nor what the keybag
/// has for the host. It is kept nowhere.
package typealias PairingCode = RecoveryKey

/// A request that a pairing code has opened.
package struct HostRequest: ~Copyable, Sendable {
  package let record: HostRequestRecord
  /// The classes whose keys the host gets, sorted by their numbers: at first those that it asks for.
  package var classes: [ProtectionClass]
  let hostKey: SecretBytes
  let deliveryKey: SecretBytes

  /// Opens a request; `nil` for one that was made with another code.
  static func open(
    _ record: HostRequestRecord, _ code: borrowing PairingCode
  ) throws(KeyManagementError) -> HostRequest? {
    try KeyManagementError.wrapping { () throws(CryptographyError) in
      guard isEqualInConstantTime(try code.tag(of: record), record.tag) else { return nil }
      return HostRequest(
        record: record, classes: record.classes,
        hostKey: try KeyWrap.unwrap(record.wrappedKey, under: code.requestKey(of: record.storeID)),
        deliveryKey: try code.deliveryKey(of: record.storeID))
    }
  }
}

extension HostRequestRecord {
  /// The request of a host whose key is `hostKey`.
  init(
    storeID: StoreID, id: [UInt8], label: String, classes: [ProtectionClass], hostKey: borrowing SecretBytes,
    _ code: borrowing PairingCode
  ) throws(CryptographyError) {
    self.init(
      storeID: storeID, id: id, label: label, classes: classes,
      wrappedKey: try KeyWrap.wrap(hostKey, under: code.requestKey(of: storeID)))
    tag = try code.tag(of: self)
  }
}

extension PairingCode {
  /// Under which the request has the host key.
  fileprivate func requestKey(of storeID: StoreID) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(ikm: secret, salt: storeID.bytes, info: "protectfs host request", count: 32)
  }

  /// Under which the keybag has the volume's device key for the host, which keeps it.
  func deliveryKey(of storeID: StoreID) throws(CryptographyError) -> SecretBytes {
    try KeyDerivation.hkdf(ikm: secret, salt: storeID.bytes, info: "protectfs host delivery", count: 32)
  }

  fileprivate func tag(of record: HostRequestRecord) throws(CryptographyError) -> [UInt8] {
    let key = try KeyDerivation.hkdf(
      ikm: secret, salt: record.storeID.bytes, info: "protectfs host request tag", count: 32)
    return try RecordAuthenticator(key: key).code("", record.bytesBeforeTag)
  }
}

/// The requests in a store: `.protectfs/hosts/ID.request`.
package struct HostRequests: ~Copyable {
  private static let suffix = ".request"

  private let directory: Descriptor
  private let storeID: StoreID

  /// Those of the store in a backing directory; `nil` where there never was one.
  package init?(in backing: borrowing Descriptor, of storeID: StoreID) throws(KeyManagementError) {
    do throws(Errno) {
      let store = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
      directory = try HostDirectory.open(in: store)
    } catch {
      if error == .noSuchFileOrDirectory { return nil }
      throw .keybagUnreadable(error)
    }
    self.storeID = storeID
  }

  /// Puts a request into a store.
  package static func add(
    _ request: HostRequestRecord, to backing: borrowing Descriptor
  ) throws(KeyManagementError) {
    do throws(Errno) {
      let store = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
      var file = try AtomicFile(replacing: fileName(of: request.id), in: HostDirectory.make(in: store))
      try unsafe request.bytes.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
    } catch {
      throw .keybagUnwritable(error)
    }
  }

  /// All of them, sorted by their labels. What is none is left out.
  package func all() throws(KeyManagementError) -> [HostRequestRecord] {
    let names: [PathName]
    do throws(Errno) { names = try directory.names(limit: .max) } catch { throw .keybagUnreadable(error) }
    var found: [HostRequestRecord] = []
    for name in names { if let record = request(name) { found.append(record) } }
    return found.sorted { ($0.label, $0.id.hexadecimal) < ($1.label, $1.id.hexadecimal) }
  }

  /// The one that was made with a pairing code.
  ///
  /// - Throws: `noSuchRequest`.
  package func request(of code: borrowing PairingCode) throws(KeyManagementError) -> HostRequest {
    for record in try all() {
      if let request = try HostRequest.open(record, code) { return request }
    }
    throw .noSuchRequest
  }

  /// Removes a request that was answered.
  package func remove(_ id: [UInt8]) throws(KeyManagementError) {
    do throws(Errno) {
      try directory.unlink(Self.fileName(of: id))
    } catch {
      if error != .noSuchFileOrDirectory { throw .keybagUnwritable(error) }
    }
  }

  private func request(_ name: PathName) -> HostRequestRecord? {
    guard name.bytes.reversed().starts(with: Self.suffix.utf8.reversed()),
      let bytes = HostDirectory.read(name, in: directory, limit: HostRequestRecord.longest + 1),
      let record = try? HostRequestRecord(parsing: bytes), record.storeID == storeID,
      Self.fileName(of: record.id) == name
    else { return nil }
    return record
  }

  private static func fileName(of id: [UInt8]) -> PathName { PathName(id.hexadecimal + suffix) }
}
