import Cryptography
import Foundation
import ProtectfsIO
import StoreCheck
import SystemPackage
import TestVectors
import Testing

@testable import KeyManagement

/// Broken stores that were created once and are kept as files, each with one named defect. Later versions must report
/// the same defects, even if the code that creates stores changes.
///
/// An archive contains `backing`, `volume.key` (the volume device key) and `expected.json`. The passcode is
/// ``BuiltStore/passcode``. With `PROTECTFS_KEEP_STORES=1` in the environment, missing stores are created.
@Suite struct KeptStores {
  struct Expected: Codable {
    let defect, backingPath: String
    let path: String?
    let needsPasscode: Bool
  }

  static let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Stores")

  @Test(arguments: PlantedDefect.all) func keptStore(_ planted: PlantedDefect) throws {
    let archive = Self.directory.appendingPathComponent("\(planted.defect.rawValue).\(planted.slug).tar.gz").path
    if ProcessInfo.processInfo.environment["PROTECTFS_KEEP_STORES"] == "1" { try Self.keep(planted, archive) }
    try #require(FileManager.default.fileExists(atPath: archive), "no store is kept")
    let place = FileManager.default.temporaryDirectory.path + "/protectfs-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
    defer { try? Self.run("/bin/rm", ["-rf", place]) }
    try Self.run(
      "/bin/tar", ["-xzf", archive, "-C", place, "--xattrs", "--xattrs-include=user.*", "--no-same-owner"])

    let expected = try JSONDecoder().decode(
      Expected.self, from: Data(contentsOf: URL(fileURLWithPath: place + "/expected.json")))
    let keyFile = try Descriptor.open(PathName(place + "/volume.key"), [.readOnly])
    let deviceKey = try VolumeDeviceKey(SecretBytes(keyFile.readAll(limit: VolumeDeviceKey.size)))
    for withPasscode in [false, true] {
      let found = try StoreCheck.findings(
        in: place + "/backing", deviceKey: deviceKey, withPasscode: withPasscode
      ).findings
      if expected.needsPasscode && !withPasscode {
        #expect(found.isEmpty)
      } else {
        #expect(found.map(\.defect.rawValue) == [expected.defect])
        #expect(found.first?.backingPath.description == expected.backingPath)
        #expect(found.first?.path?.description == expected.path)
      }
    }
  }

  /// Creates the archive of a store with one defect, if it does not exist.
  private static func keep(_ planted: PlantedDefect, _ archive: String) throws {
    guard !FileManager.default.fileExists(atPath: archive) else { return }
    let store = try BuiltStore()
    let (backingPath, path) = try planted.plant(store)
    let expected = Expected(
      defect: planted.defect.rawValue, backingPath: backingPath, path: path, needsPasscode: planted.needsPasscode)
    let parts = store.path + ".parts"
    try FileManager.default.createDirectory(atPath: parts, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: parts) }
    try JSONEncoder().encode(expected).write(to: URL(fileURLWithPath: parts + "/expected.json"))
    try Data(store.deviceKey.secret.exposed()).write(to: URL(fileURLWithPath: parts + "/volume.key"))
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let name = URL(fileURLWithPath: store.path).lastPathComponent
    try run(
      "/bin/tar",
      [
        "-czf", archive, "--xattrs", "--xattrs-include=user.*", "--owner=0", "--group=0", "--numeric-owner",
        "--transform=s,^\(name),backing,", "-C", parts, "expected.json", "volume.key", "-C",
        URL(fileURLWithPath: store.path).deletingLastPathComponent().path, name,
      ])
  }

  private static func run(_ program: String, _ arguments: [String]) throws {
    let process = try Process.run(URL(fileURLWithPath: program), arguments: arguments)
    process.waitUntilExit()
    try #require(process.terminationStatus == 0, "\(program)")
  }
}

extension PlantedDefect {
  /// The name as a part of a file name.
  fileprivate var slug: String {
    String(name.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "-" })
  }
}
