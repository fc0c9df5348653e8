import Cryptography
import FileProtection
import Glibc
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// The inner parts, without a mount: what each costs in time, allocations and system calls.

let key = try SecretBytes(randomCount: 32)
let secret = try SecretBytes(randomCount: 32)

func contents() throws -> [Measurement] {
  let cipher = try FileKey().contentsCipher()
  let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
  let unit = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<4096])
  return try [
    Measurement("AES-256-XTS, encrypt a unit", bytes: unit.count) { try unsafe cipher.encrypt(unit, firstUnit: 7) },
    Measurement("AES-256-XTS, encrypt 1 MiB", bytes: buffer.count) { try unsafe cipher.encrypt(buffer, firstUnit: 7) },
    Measurement("AES-256-XTS, decrypt 1 MiB", bytes: buffer.count) { try unsafe cipher.decrypt(buffer, firstUnit: 7) },
  ]
}

func keys() throws -> [Measurement] {
  let wrapped = try KeyWrap.wrap(secret, under: key)
  let pair = try OnePassDiffieHellman.KeyPair()
  let publicKey = pair.publicKey
  let sealed = try OnePassDiffieHellman.wrap(secret, for: publicKey)
  let privateKey = SecretBytes(unsafe pair.privateKey.withBytes { unsafe Array($0) })
  let holder = Holder(privateKey)
  return [
    try Measurement("wrap a file's key (RFC 3394)") { _ = try KeyWrap.wrap(secret, under: key) },
    try Measurement("unwrap it") { _ = try KeyWrap.unwrap(wrapped, under: key) },
    try Measurement("wrap for class B (X25519)") { _ = try OnePassDiffieHellman.wrap(secret, for: publicKey) },
    try Measurement("unwrap it, class B") {
      _ = try OnePassDiffieHellman.unwrap(sealed, privateKey: holder.key, publicKey: publicKey)
    },
    try Measurement("a file's key and its cipher") { _ = try FileKey().contentsCipher() },
  ]
}

/// Lets a closure use a key.
final class Holder {
  let key: SecretBytes
  init(_ key: consuming SecretBytes) { self.key = key }
}

func names() throws -> [Measurement] {
  let cipher = try NameCipher(key: SecretBytes(randomCount: 64))
  let directory = [UInt8](repeating: 7, count: 16)
  let name = Array("a name of usual length.txt".utf8)
  let sealed = try cipher.encrypt(name, associatedData: directory)
  let backing = NameEncoding.backingName(encrypted: sealed) { _ in [] }.bytes
  return [
    try Measurement("a name, to the backing directory") {
      _ = NameEncoding.backingName(encrypted: try cipher.encrypt(name, associatedData: directory)) { _ in [] }
    },
    try Measurement("a name, from the backing directory") {
      guard case .direct(let sealed) = NameEncoding.parse(backing) else { return }
      _ = try cipher.decrypt(sealed, associatedData: directory)
    },
  ]
}

func files() throws -> [Measurement] {
  let deviceKey = try VolumeDeviceKey(SecretBytes(randomCount: VolumeDeviceKey.size))
  let new = try Keybag.create(
    passcode: SecretBytes([1]), deviceKey: deviceKey, storeID: .random(), cost: ScryptParameters(logN: 16, r: 8, p: 1))
  let controller = LockController(
    keybag: new.keybag, noneKeys: try new.keybag.noneClassKeys(deviceKey: deviceKey, effaceable: new.change.secret))
  let (keyID, wrappedKey) = try controller.wrap(FileKey(), for: .none)
  let record = FileRecord(fileClass: .none, isExplicit: false, classKeyID: keyID, wrappedKey: wrappedKey)
  // A file without a name, in memory (O_TMPFILE).
  let backing = try Descriptor.open("/dev/shm", OpenFlags(rawValue: 0o20200000 | O_RDWR), mode: 0o600)
  let file = try ProtectedFile(
    descriptor: Descriptor.open(PathName(descriptor: backing), [.readWrite]), layout: .units, isWritable: true,
    record: record, status: backing.status(), controller: controller)
  let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: (1 << 20) + 3 * 4096, alignment: 4096)
  func write(_ count: Int, at offset: UInt64) -> () throws -> Void {
    { try unsafe file.write(UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), at: offset) }
  }
  func read(_ count: Int, at offset: UInt64) -> () throws -> Void {
    { _ = try unsafe file.read(at: offset, count: count, into: buffer) }
  }
  try write(1 << 20, at: 0)()
  return [
    try Measurement("ProtectedFile, write 1 MiB", bytes: 1 << 20, write(1 << 20, at: 0)),
    try Measurement("ProtectedFile, write a unit", bytes: 4096, write(4096, at: 8192)),
    try Measurement("ProtectedFile, write 100 bytes inside one", write(100, at: 10_000)),
    try Measurement("ProtectedFile, read 1 MiB", bytes: 1 << 20, read(1 << 20, at: 0)),
    try Measurement("ProtectedFile, read a unit", bytes: 4096, read(4096, at: 8192)),
    try Measurement("ProtectedFile, read 100 bytes", read(100, at: 10_000)),
  ]
}

print("| operation | time | rate | allocations | system calls |\n|---|---|---|---|---|")
for part in [contents, keys, names, files] {
  for measurement in try part() { print(measurement.row) }
}
