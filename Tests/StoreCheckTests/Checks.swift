import Cryptography
import Foundation
import KeyManagement
import ProtectfsIO
import StoreCheck
import StoreFormat
import SystemPackage

extension StoreCheck {
  /// Checks the store in a directory and returns the findings and totals. A recovery key, if given, opens the store in
  /// place of the passcode.
  static func findings(
    in path: String, deviceKey: borrowing VolumeDeviceKey, withPasscode: Bool, isRepairing: Bool = false,
    recoveryKey: [UInt8]? = nil
  ) throws -> (findings: [Finding], CheckSummary) {
    let backing = try Descriptor.open(PathName(path), [.readOnly, .directory])
    let copies = try KeybagCopies(backing: backing)
    let keybag = try copies.firstUsable(in: backing) { (bytes) throws(KeyManagementError) in
      try Keybag(parsing: bytes, deviceKey: deviceKey)
    }
    let collector = Collector()
    let unlock: Unlock = { (file, keybag, deviceKey) throws(KeyManagementError) in
      let secret: UnlockSecret =
        if let recoveryKey { .recoveryKey(SecretBytes(recoveryKey)) } else {
          .passcode(SecretBytes(BuiltStore.passcode))
        }
      return try file.open(keybag, with: secret, deviceKey: deviceKey).heldKeys()
    }
    let summary = try run(
      backing, copies: copies, keybag: keybag, deviceKey: deviceKey, unlock: withPasscode ? unlock : nil,
      options: isRepairing ? .repairs : [], observer: collector)
    return (collector.findings, summary)
  }

  private final class Collector: CheckObserver {
    var findings: [Finding] = []

    func found(_ finding: Finding) { findings.append(finding) }
    func checked(_ summary: CheckSummary) {}
  }
}

extension BuiltStore {
  /// Checks the store and returns the findings and totals.
  func check(withPasscode: Bool = true, isRepairing: Bool = false) throws -> (findings: [Finding], CheckSummary) {
    try StoreCheck.findings(
      in: path, deviceKey: deviceKey, withPasscode: withPasscode, isRepairing: isRepairing, recoveryKey: recoveryKey)
  }

  /// The content of a place in the backing directory.
  struct Content: Equatable {
    let inode: UInt64
    let mode: UInt32
    /// The bytes of a regular file, or the text of a symbolic link.
    let bytes: [UInt8]
    let attributes: [String: [UInt8]]
  }

  /// Everything in the backing directory, by path.
  func contents() throws -> [String: Content] {
    var contents: [String: Content] = [:]
    var directories = [""]
    while let directory = directories.popLast() {
      let opened = try Descriptor.open(PathName(path + directory), [.readOnly, .directory])
      for name in try opened.names() {
        let place = directory + "/" + name.description
        let status = try opened.status(of: name)
        var bytes: [UInt8] = []
        var attributes: [String: [UInt8]] = [:]
        switch status.type {
        case .regular: bytes = try read(place)
        case .symbolicLink: bytes = try opened.target(ofSymbolicLink: name)
        case .directory: directories.append(place)
        default: break
        }
        if status.type == .regular || status.type == .directory {
          for attribute in try PathName(path + place).attributeNames() {
            attributes[attribute.description] = try PathName(path + place).attribute(attribute)
          }
        }
        contents[place] = Content(inode: status.inode, mode: status.mode, bytes: bytes, attributes: attributes)
      }
    }
    return contents
  }
}
