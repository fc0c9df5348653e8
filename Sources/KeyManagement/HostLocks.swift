import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// How a host has all others lock: its request in `.protectfs/lock`, and what each that has locked leaves in
/// `.protectfs/hosts/ID.locked`. All of it is authenticated under a key that every host has.
package struct HostLocks: Sendable {
  static let name: PathName = "lock"
  /// How long another writer of the same file is waited for.
  private static let patience = Duration.seconds(2)

  private let storeID: StoreID
  private let authenticator: RecordAuthenticator

  /// - Throws: `cryptography`.
  package init(of storeID: StoreID, _ deviceKey: borrowing VolumeDeviceKey) throws(KeyManagementError) {
    authenticator = try KeyManagementError.wrapping { () throws(CryptographyError) in
      try RecordAuthenticator(key: deviceKey.key(for: .hostLocks, of: storeID))
    }
    self.storeID = storeID
  }

  /// What tells one file in the place of the last request from the next, for one question to the file system.
  package struct Mark: Equatable, Sendable {
    private let inode: UInt64
    private let seconds: Int64
    private let nanoseconds: UInt32

    /// `nil` where there is none.
    package init?(beside file: borrowing KeybagFile) {
      guard let status = try? file.directory.status(of: HostLocks.name) else { return nil }
      (inode, seconds, nanoseconds) = (status.inode, status.change_seconds, status.change_nanoseconds)
    }
  }

  /// The last request; `nil` where there is none that is authentic.
  package func request(beside file: borrowing KeybagFile) -> HostLockRecord? {
    record(Self.name, in: file.directory).flatMap { $0.content == .locked ? nil : $0 }
  }

  /// A request of this machine's, which is not made yet.
  ///
  /// - Parameter host: its identity as a host.
  package func newRequest(
    _ content: HostLockRecord.Content, by host: [UInt8]?
  ) throws(KeyManagementError) -> HostLockRecord {
    let number = try KeyManagementError.wrapping { () throws(CryptographyError) in try randomBytes(8) }
    let request = number.reduce(0) { $0 << 8 | UInt64($1) }
    // One in 2^64 is none.
    return HostLockRecord(
      storeID: storeID, request: max(request, 1), host: host ?? HostLockRecord.none, content: content)
  }

  /// Puts a request in place of the last one.
  package func make(_ request: HostLockRecord, beside file: borrowing KeybagFile) throws(KeyManagementError) {
    do throws(Errno) { try put(request, Self.name, in: file.directory) } catch { throw .keybagUnwritable(error) }
  }

  /// Says that a host has done what a request asks for.
  ///
  /// - Parameter host: its identity; `nil` for whoever writes the store.
  package func acknowledge(
    _ request: HostLockRecord, by host: [UInt8]?, beside file: borrowing KeybagFile
  ) throws(KeyManagementError) {
    let host = host ?? HostLockRecord.none
    let record = HostLockRecord(storeID: storeID, request: request.request, host: host, content: .locked)
    do throws(Errno) {
      try put(record, Self.fileName(of: host), in: HostDirectory.make(in: file.directory))
    } catch {
      throw .keybagUnwritable(error)
    }
  }

  /// Whether a host, or `nil` for whoever writes the store, has done what a request asks for.
  package func isAcknowledged(
    _ request: HostLockRecord, by host: [UInt8]?, beside file: borrowing KeybagFile
  ) -> Bool {
    let host = host ?? HostLockRecord.none
    guard let directory = try? HostDirectory.open(in: file.directory),
      let record = record(Self.fileName(of: host), in: directory)
    else { return false }
    return record.content == .locked && record.host == host && record.request == request.request
  }

  /// Removes what a host has left that is none any more.
  static func forget(_ host: [UInt8], in store: borrowing Descriptor) {
    if let directory = try? HostDirectory.open(in: store) { try? directory.unlink(fileName(of: host)) }
  }

  private func put(_ record: HostLockRecord, _ name: PathName, in directory: borrowing Descriptor) throws(Errno) {
    var record = record
    do throws(CryptographyError) {
      record.tag = try authenticator.code("", record.bytesBeforeTag)
    } catch {
      throw Errno(error)
    }
    var file = try AtomicFile(replacing: name, in: directory, patience: Self.patience, overtakes: true)
    try unsafe record.bytes.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
  }

  private func record(_ name: PathName, in directory: borrowing Descriptor) -> HostLockRecord? {
    guard let bytes = HostDirectory.read(name, in: directory, limit: HostLockRecord.size + 1),
      let record = try? HostLockRecord(parsing: bytes), record.storeID == storeID,
      let tag = try? authenticator.code("", record.bytesBeforeTag), isEqualInConstantTime(tag, record.tag)
    else { return nil }
    return record
  }

  private static func fileName(of host: [UInt8]) -> PathName { PathName("\(host.hexadecimal).locked") }
}
