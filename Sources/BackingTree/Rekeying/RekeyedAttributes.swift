import Cryptography
import FileProtection
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

extension BackingTree {
  /// Whether a file has extended attributes that are encrypted under its key.
  func hasEncryptedAttributes(_ file: ProtectedFile) throws(Errno) -> Bool {
    try file.withDescriptor { (descriptor) throws(Errno) in
      try descriptor.attributeNames().contains { AttributeEncoding.isBackingName($0.bytes) }
    }
  }

  /// The ciphers for a file's extended attributes. The file key is wiped when this returns, because the caller may wait
  /// for a store that does not respond.
  package func attributeCiphers(of record: FileRecord) throws(Errno) -> AttributeCiphers {
    let key = try controller.fileKey(of: record)
    do throws(CryptographyError) { return try AttributeCiphers(key, record) } catch { throw errno(error) }
  }

  /// Re-encrypts the extended attributes of a file under its new key, each in one step. The caller holds the contents
  /// lock exclusively, so no thread sets one meanwhile. One that is removed meanwhile stays removed.
  ///
  /// - Throws: the error of reading or writing one. Damaged ones are left as they are.
  func rekeyAttributes(of file: ProtectedFile, _ node: Node) throws(Errno) {
    let record = file.record
    try file.withDescriptor { (descriptor) throws(Errno) in
      let stored = try descriptor.attributeNames().filter { AttributeEncoding.isBackingName($0.bytes) }
      guard !stored.isEmpty else { return }
      let ciphers = try attributeCiphers(of: record)
      try ownerPermissions.ensuring(on: descriptor) { () throws(Errno) in
        for name in stored { try rekey(name, of: descriptor, ciphers, node) }
      }
    }
  }

  private func rekey(
    _ stored: PathName, of descriptor: borrowing Descriptor, _ ciphers: AttributeCiphers, _ node: Node
  ) throws(Errno) {
    let value: [UInt8]
    do throws(Errno) { value = try descriptor.attribute(stored) } catch .noData { return }
    let rekeyed: [UInt8]
    do {
      let parsed = try AttributeEncoding.parse(value)
      let name = try volume.attributeNames.decrypt(parsed.encryptedName, associatedData: nil)
      var (plain, isOld) = try ciphers.decrypt(parsed.encryptedValue, name)
      defer { unsafe plain.withMutableBytes { unsafe Memory.wipe($0) } }
      guard isOld else { return }
      rekeyed = AttributeEncoding.value(
        encryptedName: parsed.encryptedName, encryptedValue: try ciphers.current.encrypt(plain, associatedData: name))
    } catch {
      damaged(node, "an extended attribute cannot be read: \(error)")
      return
    }
    do throws(Errno) {
      try descriptor.setAttribute(stored, to: rekeyed, mode: .replace)
    } catch {
      if error != .noData { throw error }
    }
  }
}
