import Cryptography
import FUSE
import FileProtection
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// Records of files and directories: read, verified, written.
extension ProtectedFileSystem {
  static let recordAttribute = PathName(FileRecord.attributeName)

  /// The record that a file's attribute holds, verified.
  ///
  /// - Throws: `EIO`, with the reason in the log, when it is malformed or its tag does not match.
  func verifiedFileRecord(_ bytes: [UInt8], of node: Node) throws(Errno) -> FileRecord {
    let record: FileRecord
    do throws(FormatError) {
      record = try FileRecord(parsing: bytes)
    } catch {
      damaged(node, "its record is malformed: \(error)")
      throw .ioError
    }
    let matches = try records { () throws(CryptographyError) in
      try volume.isAuthentic(record)
    }
    guard matches else {
      damaged(node, "its record's tag does not match: the record was changed by someone without the device key")
      throw .ioError
    }
    return record
  }

  /// A record for a file key just wrapped.
  func fileRecord(
    _ fileClass: ProtectionClass, isExplicit: Bool, classKeyID: ClassKeyID, wrappedKey: [UInt8],
    pending: PendingRekey? = nil
  ) throws(Errno) -> FileRecord {
    let record = FileRecord(
      fileClass: fileClass, isExplicit: isExplicit, classKeyID: classKeyID, wrappedKey: wrappedKey, pending: pending)
    return try records { () throws(CryptographyError) in try volume.tagged(record) }
  }

  /// What a directory's record says. A directory that has none and is empty is one whose creation was cut short: it is
  /// given a record with its parent's class.
  func readDirectoryRecord(of node: Node, _ handle: SharedDescriptor) throws(Errno) -> Node.Directory {
    let path = PathName(descriptor: handle.descriptor)
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try lendingPermissions(of: handle.descriptor) { () throws(Errno) in
        try path.attribute(Self.recordAttribute)
      }
    } catch .noData {
      return try adoptDirectory(node, handle)
    }
    let parsed: DirectoryRecord
    do throws(FormatError) {
      parsed = try DirectoryRecord(parsing: bytes)
    } catch {
      damaged(node, "its directory record is malformed: \(error)")
      throw .ioError
    }
    let matches = try records { () throws(CryptographyError) in
      try volume.isAuthentic(parsed)
    }
    guard matches else {
      damaged(node, "its directory record's tag does not match")
      throw .ioError
    }
    return Node.Directory(
      identifier: parsed.directoryID, directoryClass: parsed.directoryClass, isExplicit: parsed.isExplicit)
  }

  /// Writes a directory's record.
  func writeDirectoryRecord(
    _ directory: Node.Directory, to descriptor: borrowing Descriptor, mode: AttributeMode = .createOrReplace
  ) throws(Errno) {
    let record = DirectoryRecord(
      directoryClass: directory.directoryClass, isExplicit: directory.isExplicit, directoryID: directory.identifier)
    let tagged = try records { () throws(CryptographyError) in try volume.tagged(record) }
    try setRecord(tagged.bytes, of: descriptor, mode: mode)
  }

  /// Gives a new store's root its record.
  package static func writeRootRecord(
    to backing: borrowing Descriptor, defaultClass: ProtectionClass, volume: VolumeKeys
  ) throws {
    let record = DirectoryRecord(
      directoryClass: defaultClass, isExplicit: true, directoryID: try randomBytes(DirectoryRecord.identifierSize))
    try PathName(descriptor: backing).setAttribute(recordAttribute, to: volume.tagged(record).bytes)
  }

  /// Sets the record attribute of an open file, or through /proc where the descriptor was opened with `O_PATH`.
  func setRecord(
    _ bytes: [UInt8], of descriptor: borrowing Descriptor, mode: AttributeMode = .createOrReplace
  ) throws(Errno) {
    try lendingPermissions(of: descriptor) { () throws(Errno) in
      try writeRecord(bytes, of: descriptor, mode: mode)
    }
  }

  private func writeRecord(
    _ bytes: [UInt8], of descriptor: borrowing Descriptor, mode: AttributeMode
  ) throws(Errno) {
    do throws(Errno) {
      try descriptor.setAttribute(Self.recordAttribute, to: bytes, mode: mode)
    } catch .badFileDescriptor {
      try PathName(descriptor: descriptor).setAttribute(Self.recordAttribute, to: bytes, mode: mode)
    }
  }

  /// A fresh record for a new directory.
  func newDirectory(in parent: Node.Directory) throws(Errno) -> Node.Directory {
    let identifier = try records { () throws(CryptographyError) in try randomBytes(DirectoryRecord.identifierSize) }
    return Node.Directory(identifier: identifier, directoryClass: parent.directoryClass, isExplicit: false)
  }

  private func adoptDirectory(_ node: Node, _ handle: SharedDescriptor) throws(Errno) -> Node.Directory {
    guard let parent = node.location?.parent, try isEmpty(handle), !options.isReadOnly else {
      damaged(node, "the directory has no record")
      throw .ioError
    }
    let record = try newDirectory(in: directory(parent).record)
    do throws(Errno) {
      try writeDirectoryRecord(record, to: handle.descriptor, mode: .create)
    } catch .fileExists {
      // Another request has just done the same.
      return try readDirectoryRecord(of: node, handle)
    }
    return record
  }

  private func isEmpty(_ handle: SharedDescriptor) throws(Errno) -> Bool {
    try DirectoryStream(openForListing(handle)).isEmpty()
  }

  /// Logs what is wrong with a backing file, by its backing path.
  func damaged(_ node: Node, _ reason: String) {
    log.error(
      "damaged: \(reason)", metadata: ["backing": "\(backingPath(of: node))", "inode": "\(node.identity.inode)"])
  }

  /// A node's path in the backing directory.
  func backingPath(of node: Node) -> String {
    var names: [String] = []
    var current = node
    while let location = current.location {
      names.append(location.name.description)
      current = location.parent
    }
    return "/" + names.reversed().joined(separator: "/")
  }

  private func records<Result>(_ body: () throws(CryptographyError) -> Result) throws(Errno) -> Result {
    do throws(CryptographyError) { return try body() } catch { throw errno(error) }
  }
}
