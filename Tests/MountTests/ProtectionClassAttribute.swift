import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

extension PathName {
  static let classAttribute = PathName(ProtectionClass.attributeName)

  /// The class of a file or directory, as its extended attribute tells it.
  func protectionClass() throws(Errno) -> ProtectionClass {
    let value = try extendedAttribute(Self.classAttribute)
    guard let fileClass = ProtectionClass(name: String(decoding: value, as: UTF8.self)) else { throw .protocolError }
    return fileClass
  }

  func setProtectionClass(_ fileClass: ProtectionClass) throws(Errno) {
    try setExtendedAttribute(Self.classAttribute, to: Array(fileClass.name.utf8))
  }

  /// Makes a directory whose new files are of a class.
  func makeDirectory(of fileClass: ProtectionClass) throws(Errno) {
    try makeDirectory()
    try setProtectionClass(fileClass)
  }
}

extension RandomAccessCollection<UInt8> {
  func ends(with other: some RandomAccessCollection<UInt8>) -> Bool { suffix(other.count).elementsEqual(other) }
}
