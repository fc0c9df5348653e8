import Contract
import Cryptography
import Glibc
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

// Commands that change keys, and what their tests examine.
extension Volume {
  /// Runs a command on the mount if there is one, otherwise on the backing directory.
  func command(_ words: String..., on path: PathName? = nil) throws -> Program.Result {
    let target = path ?? (isMounted ? mountPoint : backing)
    return try Command.run(words + ["--device-key", deviceKey.description, target.description])
  }

  /// Erases the store, or what `words` say, by a command with faults and without a mount.
  func erase(
    _ faults: Faults, _ action: Faults.Action, at number: Int, of kinds: Faults.Kinds = .changes, _ words: [String] = []
  ) throws -> (Program.Result, hit: String?) {
    faults.arm(action, at: number, of: kinds)
    defer { faults.disarm() }
    let result = try Program.run(
      [Command.path, "erase", "--yes", "--device-key", deviceKey.description] + words + [backing.description],
      environment: faults.environment)
    return (result, faults.hit)
  }

  /// A file with a passcode.
  func passcodeFile(_ name: String, _ passcode: String) throws -> String {
    let path = directory.appending(name)
    try path.write(passcode + "\n", mode: 0o600)
    return path.description
  }

  /// A file with the recovery key, which costs no scrypt.
  func recoveryKeyFile() throws -> String { try passcodeFile("recovery key", recoveryKey) }

  /// The labels of the protectors.
  func labels() throws -> Set<String> {
    Set(try KeybagRecord(parsing: keybagFile().read()).protectors.map(\.label))
  }

  /// The identifiers of the class keys in the keybag.
  func keyIDs(of fileClass: ProtectionClass) throws -> [ClassKeyID] {
    try Keybag(parsing: keybagFile().read(), deviceKey: volumeDeviceKey()).keyIDs(of: fileClass)
  }

  /// The record of a file on the mount.
  func record(of path: PathName) throws -> FileRecord {
    // The length is part of what a mark's tag covers, which is not looked at here.
    try FileRecord(
      parsing: backingFile(of: path).extendedAttribute(PathName(FileRecord.attributeName)),
      length: TestedStores.areAuthenticated ? 0 : nil)
  }

  /// The contents of the store's own directory.
  func ownFiles() throws -> [String: [UInt8]] {
    var files: [String: [UInt8]] = [:]
    let directory = backing.appending(".protectfs")
    for name in try directory.names() {
      let path = directory.appending(bytes: Array(name.bytes))
      if try path.status().mode & 0o170000 == 0o100000 { files[name.description] = try path.contents() }
    }
    return files
  }

  /// Restores files of the store's own directory, and removes others.
  func putBack(_ files: [String: [UInt8]]) throws {
    let directory = backing.appending(".protectfs")
    for name in try ownFiles().keys { try directory.appending(name).unlink() }
    for (name, bytes) in files { try directory.appending(name).write(bytes, mode: 0o600) }
  }
}

/// `EKEYREVOKED`: the class key is gone for good.
let keyRevoked = Errno(rawValue: EKEYREVOKED)
/// `ENOKEY`: another keybag has the class key.
let keyMissing = Errno(rawValue: ENOKEY)
