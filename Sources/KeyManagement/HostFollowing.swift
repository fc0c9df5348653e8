import Cryptography
import ProtectfsPolicy
import StoreFormat

// How a host goes on with a keybag that another machine has changed, without its passcode: new keys of the classes that
// it has in memory now, and no others.

/// What a host key gives for one class, wiped with its last reference: with the keys of the class.
package final class HostClassKey: Sendable {
  fileprivate let secret: SecretBytes

  fileprivate init(_ secret: consuming SecretBytes) {
    self.secret = secret
  }
}

/// What shows a host that a keybag was made by who opens it as a whole. It opens nothing.
package final class HostSealKey: Sendable {
  private let id: [UInt8]
  private let secret: SecretBytes

  fileprivate init(_ id: [UInt8], _ secret: consuming SecretBytes) {
    self.id = id
    self.secret = secret
  }

  /// The keys of classes that a changed keybag has for the host, of those classes that `controller` has keys of.
  ///
  /// - Throws: `hostUnknown`, `keybagAltered`, `cryptography`; `keybagChangedMeanwhile` where a class has keys in
  ///   memory that something else than the host's passcode has opened.
  package func keys(
    of keybag: Keybag, _ deviceKey: borrowing VolumeDeviceKey, _ effaceable: borrowing EffaceableSecret,
    for controller: LockController
  ) throws(KeyManagementError) -> [ProtectionClass: [HeldKey]] {
    try keybag.require(sealOfHost: id, secret)
    let keys = try KeyManagementError.wrapping {
      () throws(CryptographyError) -> [ProtectionClass: [HeldKey]]? in
      var keys: [ProtectionClass: [HeldKey]] = [:]
      for entry in keybag.record.classEntries(ofHost: id) {
        let successors = controller.successors(of: entry.fileClass)
        let isHeldOtherwise =
          successors == nil && !entry.fileClass.isUnlockedByDevice && controller.holdsKey(of: entry.fileClass)
        if isHeldOtherwise { return nil }
        let wrappingKey: SecretBytes
        if entry.fileClass.isUnlockedByDevice {
          wrappingKey = try effaceable.wrappingKey(with: deviceKey, of: keybag.storeID)
        } else if let successors {
          wrappingKey = try effaceable.wrappingKey(with: successors.secret, of: keybag.storeID)
        } else {
          continue
        }
        let key = try KeyWrap.unwrap(entry.wrappedKey, under: wrappingKey)
        keys[entry.fileClass, default: []].append(HeldKey(entry.id, key, successors: successors))
      }
      return keys
    }
    guard let keys else { throw .keybagChangedMeanwhile }
    return keys
  }
}

extension Keybag {
  /// The classes whose keys a host was not given; none where there is no host.
  package func classesMissing(for host: HostKey?) -> [ProtectionClass] {
    guard let host else { return [] }
    let own = record.host(host.record.id)?.host.classes ?? []
    return [ProtectionClass].ofHosts.filter { !own.contains($0) }
  }

  /// What a host is called, and the classes whose keys it was given; `nil` where there is no host.
  package func nameAndClasses(of host: HostKey?) -> (name: String?, classes: [ProtectionClass]?) {
    let own = host.flatMap { record.host($0.record.id) }
    return (own?.protector.label, own?.host.classes)
  }

  /// The classes of which it remembers a key as erased that another one has.
  package func classesErased(since other: Keybag) -> [ProtectionClass] {
    let erased = Set(record.formerKeys.lazy.filter { $0.end == .erased }.map(\.id))
    return ProtectionClass.allCases.filter { !erased.isDisjoint(with: other.keyIDs(of: $0)) }
  }
}

extension OpenKeybag {
  /// What shows the host that opened it who has made the next one; `nil` where it was opened as a whole.
  package func hostSealKey() throws(KeyManagementError) -> HostSealKey? {
    guard let host = keys.host else { return nil }
    return try KeyManagementError.wrapping { () throws(CryptographyError) in
      HostSealKey(host, try Keybag.sealKey(of: keybag.storeID, keys.keybagKey))
    }
  }

  func hostClassKey(of fileClass: ProtectionClass) throws(KeyManagementError) -> HostClassKey? {
    guard keys.host != nil, !fileClass.isUnlockedByDevice else { return nil }
    return try KeyManagementError.wrapping { () throws(CryptographyError) in
      HostClassKey(try keys.hostClassKey(of: fileClass))
    }
  }
}
