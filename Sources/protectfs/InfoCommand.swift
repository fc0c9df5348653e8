import ArgumentParser
import FoundationEssentials
import KeyManagement
import MountDaemon
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// `protectfs info`
struct InfoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "info",
    abstract: "Show what a store says of itself, without any secret.",
    discussion: """
      Reads the keybag: format, classes and their keys, the protectors, and how the passcode is stretched. With the \
      device key at hand, it says whether the keybag is authentic.

      Example:
        protectfs info ~/.private
      """)

  @Argument(help: ArgumentHelp("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Option(
    name: .customLong("device-key"), help: ArgumentHelp("Use this device key file.", valueName: "file"),
    completion: .file())
  var deviceKeyFile: String?

  @Flag(help: "Report in JSON.")
  var json = false

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    let directory = try Store.open(path)
    let information: StoreInformation
    do throws(KeyManagementError) {
      let bytes = try KeybagFile(backing: directory).read()
      let record = try StoreSummary.parse(bytes)
      information = StoreInformation(
        backing: path, record, authenticity: authenticity(of: bytes, storeID: record.storeID),
        pendingRekeys: pendingRekeys(in: path))
    } catch .keybagMissing {
      throw StoreSummary.missingKeybag(in: directory, path: path)
    }
    if json { try JSONOutput.show(information) } else { print(information.report) }
  }

  /// How many records have a rekey pending; that takes a look at each file, but only where there may be one.
  private func pendingRekeys(in path: String) -> Int {
    guard FileManager.default.fileExists(atPath: "\(path)/.protectfs/rekey.0") else { return 0 }
    let count = Atomic(0)
    DirectoryTree.visit(path, report: { (_, _) in }) { (item, _) throws(Errno) in
      guard let bytes = try? item.attribute(PathName(FileRecord.attributeName)),
        let record = try? FileRecord(parsing: bytes), record.pending != nil
      else { return }
      count.wrappingAdd(1, ordering: .relaxed)
    }
    return count.load(ordering: .relaxed)
  }

  private func authenticity(of bytes: [UInt8], storeID: StoreID) -> StoreInformation.Authenticity {
    do throws(KeyManagementError) {
      let deviceKey = try DeviceKey.load(for: storeID, file: deviceKeyFile.map { PathName($0) })
      _ = try Keybag(parsing: bytes, deviceKey: deviceKey)
      return .authentic
    } catch {
      switch error {
      case .keybagAltered: return .altered
      case .foreignDeviceKey: return .foreignDeviceKey
      default: return .noDeviceKey
      }
    }
  }
}

/// What is public about a store.
struct StoreInformation: Encodable {
  /// Whether the keybag is what someone with its keys wrote.
  enum Authenticity: String, Encodable {
    case authentic, altered, foreignDeviceKey, noDeviceKey
  }

  struct ClassKey: Encodable {
    var protectionClass: ProtectionClass
    var keys: [String]

    enum CodingKeys: String, CodingKey {
      case keys
      case protectionClass = "class"
    }
  }

  var backing: String
  var storeID: String
  var formatVersion = KeybagRecord.version
  var features: UInt64
  var created: String
  var keybagGeneration: UInt64
  var defaultClass: ProtectionClass
  var authenticity: Authenticity
  var classes: [ClassKey]
  var waysIn: [ListedProtector]
  var eraseAfter: UInt8?
  var erased: String?
  /// Files whose contents are on the way to new keys.
  var pendingRekeys: Int

  init(backing: String, _ record: KeybagRecord, authenticity: Authenticity, pendingRekeys: Int) {
    self.pendingRekeys = pendingRekeys
    self.backing = backing
    storeID = record.storeID.description
    features = record.features.rawValue
    created = Date(timeIntervalSince1970: Double(record.creationTime)).formatted(.iso8601)
    keybagGeneration = record.generation
    defaultClass = record.defaultClass
    self.authenticity = authenticity
    classes = ProtectionClass.allCases.map { fileClass in
      let entries = record.classEntries.filter { $0.fileClass == fileClass }
      return ClassKey(protectionClass: fileClass, keys: entries.map(\.id.description))
    }
    waysIn = record.protectors.map { ListedProtector($0) }
    eraseAfter = record.eraseAfter
    erased = record.erasureTime.map { Date(timeIntervalSince1970: Double($0)).formatted(.iso8601) }
  }

  /// The report for people.
  var report: String {
    var lines = ["\(backing.printable): a store of protectfs, format \(formatVersion)"]
    func line(_ name: String, _ value: String) { lines.append("  \(name.padded(to: 13)) \(value)") }
    line("store", storeID)
    line("created", created)
    line("default class", "\(defaultClass.name) (\(defaultClass.letter))")
    line("keybag", "generation \(keybagGeneration), \(verdict)")
    line("contents", "AES-256-XTS, a key for each file")
    line("names", "AES-256-SIV")
    if let erased { line("ERASED", "on \(erased); what was in it cannot be read any more") }
    if pendingRekeys > 0 { line("rekeys", "pending for \(pendingRekeys.files); they go on after an unlock") }
    if let eraseAfter { line("erases itself", "after \(eraseAfter) wrong passcodes") }
    for way in waysIn {
      let label = way.label == way.kind ? "" : " '\(way.label.printable)'"
      line("protector", "\(way.kind)\(label)\(way.keyDerivation.map { ", \($0)" } ?? "")")
    }
    for entry in classes {
      let key = entry.keys.isEmpty ? "no key" : "key \(entry.keys.joined(separator: ", "))"
      line("class \(entry.protectionClass.letter)", "\(entry.protectionClass.name), \(key)")
    }
    return lines.joined(separator: "\n")
  }

  private var verdict: String {
    switch authenticity {
    case .authentic: "authentic"
    case .altered: "ALTERED or damaged; the one before it is .protectfs/keybag.previous"
    case .foreignDeviceKey: "not checked: this machine's device key is another's"
    case .noDeviceKey: "not checked: there is no device key here"
    }
  }
}
