import Cryptography
import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage

// Extended attributes of the user namespace. A repair moves a damaged one into a file of its own.
extension TreeCheck {
  /// The owner of extended attributes, which determines how their values are encrypted.
  enum AttributeOwner {
    case directory([UInt8])
    case file(AttributeCiphers)
    /// A file whose key is not available: only names are checked.
    case fileWithoutKey
  }

  func checkAttributes(of file: borrowing Descriptor, _ owner: AttributeOwner, at place: Place) {
    do throws(Errno) {
      for name in try file.readable({ (path) throws(Errno) in try path.attributeNames() }) {
        guard name.bytes.starts(with: "user.".utf8), name != PathName(FileRecord.attributeName) else { continue }
        guard AttributeEncoding.isBackingName(name.bytes) else {
          findings.report(.foreignAttribute, at: place, name.description)
          continue
        }
        let value = try file.readable { (path) throws(Errno) in try path.attribute(name) }
        guard let defect = defect(in: value, storedAs: name, owner) else { continue }
        // A closure cannot capture a borrowed descriptor, so it gets another descriptor of the same file.
        let same = SharedDescriptor(try Descriptor.open(PathName(descriptor: file), [.path]))
        findings.report(defect, at: place, name.description) { (repair) throws(Errno) in
          try repair.moveAttribute(name, value: value, of: same.descriptor)
        }
      }
    } catch {
      findings.report(.unreadable, at: place, "extended attributes: \(error)")
    }
  }

  private func defect(in value: [UInt8], storedAs backingName: PathName, _ owner: AttributeOwner) -> Defect? {
    let encryptedName, encryptedValue: [UInt8]
    do throws(FormatError) {
      (encryptedName, encryptedValue) = try AttributeEncoding.parse(value)
    } catch {
      return .attributeMalformed
    }
    guard let name = try? keys.volume.attributeNames.decrypt(encryptedName, associatedData: nil) else {
      return .attributeNameDamaged
    }
    guard let expected = try? keys.volume.backingAttributeName(name), expected.elementsEqual(backingName.bytes) else {
      return .attributeMisplaced
    }
    let opened: [UInt8]?
    switch owner {
    case .fileWithoutKey: return nil
    case .file(let ciphers): opened = try? ciphers.decrypt(encryptedValue, name).value
    case .directory(let identifier):
      opened = try? keys.volume.directoryAttributes.decrypt(encryptedValue, associatedData: identifier + name)
    }
    return opened == nil ? .attributeValueDamaged : nil
  }
}
