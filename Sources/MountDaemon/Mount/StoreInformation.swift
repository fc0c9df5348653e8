import FoundationEssentials
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// What is public about a store: what its keybag says, and whether that is authentic.
package struct StoreInformation: Encodable {
  /// Whether the keybag is what someone with its keys wrote.
  package enum Authenticity: String, Encodable {
    case authentic, altered, foreignDeviceKey, noDeviceKey
  }

  package struct ClassKeys: Encodable {
    package let protectionClass: ProtectionClass
    package let keys: [String]

    private enum CodingKeys: String, CodingKey {
      case keys
      case protectionClass = "class"
    }
  }

  package let backing, storeID: String
  package let formatVersion = KeybagRecord.version
  package let features: UInt64
  package let created: String
  package let keybagGeneration: UInt64
  package let authenticatesContents: Bool
  package let defaultClass: ProtectionClass
  package let authenticity: Authenticity
  package let classes: [ClassKeys]
  package let waysIn: [ProtectorInformation]
  package let eraseAfter: UInt8?
  package let erased: String?
  /// Files whose contents are on the way to new keys.
  package let pendingRekeys: Int

  /// Reads the keybag in a backing directory. It is verified if the device key is at hand.
  package init(_ path: String, deviceKeyFile: String?) throws {
    let (bytes, record) = try StoreSummary.readKeybag(path)
    backing = path
    storeID = record.storeID.description
    features = record.features.rawValue
    created = KeyManagementError.date(record.creationTime)
    keybagGeneration = record.generation
    authenticatesContents = record.authenticatesContents
    defaultClass = record.defaultClass
    authenticity = Self.authenticity(of: bytes, deviceKeyFile)
    classes = ProtectionClass.allCases.map { fileClass in
      let entries = record.classEntries.filter { $0.fileClass == fileClass }
      return ClassKeys(protectionClass: fileClass, keys: entries.map(\.id.description))
    }
    waysIn = record.protectors.map { ProtectorInformation($0) }
    eraseAfter = record.eraseAfter
    erased = record.erasureTime.map(KeyManagementError.date)
    pendingRekeys = Self.pendingRekeys(in: path)
  }

  private static func authenticity(of keybag: [UInt8], _ deviceKeyFile: String?) -> Authenticity {
    do throws(KeyManagementError) {
      _ = try Keybag(parsing: keybag, deviceKey: DeviceKey.load(forKeybag: keybag, file: deviceKeyFile))
      return .authentic
    } catch {
      switch error {
      case .keybagAltered: return .altered
      case .foreignDeviceKey: return .foreignDeviceKey
      default: return .noDeviceKey
      }
    }
  }

  /// How many records have a rekey pending; that takes a look at each file, but only where there may be one.
  private static func pendingRekeys(in path: String) -> Int {
    guard FileManager.default.fileExists(atPath: "\(path)/.protectfs/rekey.0") else { return 0 }
    let count = Atomic(0)
    DirectoryTree.visit(path, report: { (_, _) in }) { (item, _) throws(Errno) in
      guard let bytes = try? item.attribute(PathName(FileRecord.attributeName)),
        let record = try? FileRecord(parsing: bytes, length: 0), record.pending != nil
      else { return }
      count.wrappingAdd(1, ordering: .relaxed)
    }
    return count.load(ordering: .relaxed)
  }
}

/// What is public about a protector.
package struct ProtectorInformation: Encodable {
  /// 32 hexadecimal digits.
  package let id: String
  package let kind: String
  package let label: String
  /// How a passcode is stretched.
  package let keyDerivation: String?
  /// The classes whose keys a host has.
  package let classes: [ProtectionClass]?

  package init(_ protector: KeybagRecord.Protector) {
    id = protector.id.hexadecimal
    label = protector.label
    let derivation: KeybagRecord.PasscodeDerivation?
    (kind, derivation) =
      switch protector.method {
      case .passcode(let derivation): ("passcode", derivation)
      case .recoveryKey: ("recovery key", nil)
      case .keyFile: ("key file", nil)
      case .trustedPlatformModule(let derivation, _): ("TPM passcode", derivation)
      case .backupPasscode(let derivation, _): ("backup", derivation)
      case .host: ("host", nil)
      }
    classes = protector.method.host?.classes
    keyDerivation = derivation.map {
      "scrypt N=2^\($0.logN) r=\($0.r) p=\($0.p), \((128 * UInt64($0.r) << UInt64($0.logN)) >> 20) MiB"
    }
  }
}
