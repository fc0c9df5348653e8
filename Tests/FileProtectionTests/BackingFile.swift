import Cryptography
import Glibc
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

@testable import FileProtection

/// A backing file without a name, its key, and protected files that open it.
final class BackingFile {
  let descriptor: Descriptor
  private let controller: LockController
  var record: FileRecord

  /// One controller for all files, since creating a keybag takes longer than any of the tests.
  private static let controller = Result {
    let deviceKey = try VolumeDeviceKey(SecretBytes(randomCount: VolumeDeviceKey.size))
    let new = try Keybag.create(
      passcode: SecretBytes([1]), deviceKey: deviceKey, storeID: .random(),
      cost: ScryptParameters(logN: 16, r: 8, p: 1))
    return LockController(
      keybag: new.keybag, noneKeys: try new.keybag.noneClassKeys(deviceKey: deviceKey, effaceable: new.change.secret))
  }

  init() throws {
    let controller = try Self.controller.get()
    let (keyID, wrappedKey) = try controller.wrap(FileKey(), for: .none)
    record = FileRecord(fileClass: .none, isExplicit: false, classKeyID: keyID, wrappedKey: wrappedKey)
    self.controller = controller
    // O_TMPFILE: removed with its last descriptor.
    descriptor = try Descriptor.open("/tmp", OpenFlags(rawValue: 0o20200000 | O_RDWR), mode: 0o600)
  }

  /// Its length, which encodes that of the plaintext.
  var length: UInt64 { get throws { try descriptor.status().size } }

  /// Opens it with only the data on disk.
  func open() throws -> ProtectedFile {
    try ProtectedFile(
      descriptor: Descriptor.open(PathName(descriptor: descriptor), [.readWrite]), layout: .units, isWritable: true,
      record: record, status: descriptor.status(), controller: controller)
  }
}

extension ProtectedFile {
  /// Reads like the file system, into a buffer with room for two more units.
  func read(_ range: Range<Int>) throws -> [UInt8] {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: range.count + 3 * 4096, alignment: 4096)
    defer { unsafe buffer.deallocate() }
    return try unsafe Array(read(at: UInt64(range.lowerBound), count: range.count, into: buffer))
  }

  /// Writes like the file system, from a buffer with room behind the bytes.
  func write(_ bytes: [UInt8], at offset: Int) throws {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count + 4096, alignment: 4096)
    defer { unsafe buffer.deallocate() }
    unsafe buffer.copyBytes(from: bytes)
    try unsafe write(UnsafeMutableRawBufferPointer(rebasing: buffer[..<bytes.count]), at: UInt64(offset))
  }
}
