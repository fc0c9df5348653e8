import Foundation
import ProtectfsIO
import SystemPackage

/// A directory for one test, removed with its contents when the value is destroyed.
struct TemporaryDirectory: ~Copyable {
  let path: String
  let descriptor: Descriptor

  init() throws {
    let path = FileManager.default.temporaryDirectory.path + "/protectfs-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    descriptor = try Descriptor.open(PathName(path), [.readOnly, .directory])
    self.path = path
  }

  deinit {
    try? FileManager.default.removeItem(atPath: path)
  }

  /// The names in it, sorted.
  func names(in subdirectory: String = "") -> [String] {
    (try? FileManager.default.contentsOfDirectory(atPath: path + "/" + subdirectory).sorted()) ?? []
  }

  /// Writes a file in it.
  func write(_ name: String, _ bytes: [UInt8], mode: UInt32 = 0o600) throws {
    let file = try descriptor.open(PathName(name), [.writeOnly, .create, .truncate], mode: mode)
    try file.write(bytes)
    try file.setMode(mode)
  }

  /// Reads a file in it.
  func read(_ name: String) throws -> [UInt8] {
    try descriptor.open(PathName(name), [.readOnly]).readAll(limit: 1 << 20)
  }
}
