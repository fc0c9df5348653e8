import Contents
import Cryptography
import FileProtection
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// Records of files and directories: reading, verifying, writing.
extension BackingTree {
  static let recordAttribute = PathName(FileRecord.attributeName)

  /// The verified record from the extended attribute of a file, which may be open with `O_PATH`.
  ///
  /// - Throws: `EIO`, with the reason in the log, if the record is malformed or its authentication tag does not match.
  package func verifiedFileRecord(
    _ bytes: [UInt8], of node: Node, _ file: borrowing Descriptor
  ) throws(Errno) -> FileRecord {
    try verifiedFileRecord(bytes, of: node) { () throws(Errno) in
      try file.status().size
    } again: { () throws(Errno) in
      try recordBytes(of: file)
    }
  }

  /// The verified record from the extended attribute of a file.
  ///
  /// - Parameters:
  ///   - size: of the backing file, in bytes. The record of a clean file is for one length.
  ///   - again: reads the attribute once more: whoever is about to change the file has made it unclean since.
  /// - Throws: `EIO`, as above, and also if the length of a clean file is another.
  package func verifiedFileRecord(
    _ bytes: [UInt8], of node: Node, size: () throws(Errno) -> UInt64, again: () throws(Errno) -> [UInt8]
  ) throws(Errno) -> FileRecord {
    var bytes = bytes
    var length = try options.layout.markedLength(of: bytes, size: size)
    while true {
      let record: FileRecord
      do throws(FormatError) {
        record = try FileRecord(parsing: bytes, length: length)
      } catch {
        damaged(node, "its record is malformed: \(error)")
        throw .ioError
      }
      let matches = try records { () throws(CryptographyError) in
        try volume.isAuthentic(record)
      }
      if matches { return record }
      if record.clean != nil {
        let (lastBytes, lastLength) = (bytes, length)
        bytes = try again()
        length = try options.layout.markedLength(of: bytes, size: size)
        if bytes != lastBytes || length != lastLength { continue }
      }
      let subject = record.clean != nil ? "the record, or the length of the file," : "the record"
      damaged(node, "its record's tag does not match: \(subject) was changed by someone without the device key")
      throw .ioError
    }
  }

  /// A file's record with the tag that authenticates it. Where others write, no file is clean: they do not say when
  /// they begin to change it.
  func tagged(_ record: FileRecord) throws(Errno) -> FileRecord {
    var record = record
    if options.writers != .sole { record.clean = nil }
    return try records { () throws(CryptographyError) in try volume.tagged(record) }
  }

  /// A record with the tag that authenticates it.
  func tagged<Record: TaggedRecord>(_ record: Record) throws(Errno) -> Record {
    try records { () throws(CryptographyError) in try volume.tagged(record) }
  }

  /// A record with a file key that was wrapped for a class.
  func wrapped(
    _ key: borrowing FileKey, for fileClass: ProtectionClass, in record: FileRecord
  ) throws(Errno) -> FileRecord {
    var record = record
    record.fileClass = fileClass
    (record.classKeyID, record.wrappedKey) = try controller.wrap(key, for: fileClass)
    return record
  }

  /// The contents of a directory's record. An empty directory without a record is one whose creation was cut short; it
  /// is given a record with its parent's class.
  func readDirectoryRecord(of node: Node, _ handle: SharedDescriptor) throws(Errno) -> Node.Directory {
    let path = PathName(descriptor: handle.descriptor)
    let bytes: [UInt8]
    do throws(Errno) {
      bytes = try ownerPermissions.ensuring(on: handle.descriptor) { () throws(Errno) in
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
  package func writeDirectoryRecord(
    _ directory: Node.Directory, to descriptor: borrowing Descriptor, mode: AttributeMode = .createOrReplace
  ) throws(Errno) {
    let record = DirectoryRecord(
      directoryClass: directory.directoryClass, isExplicit: directory.isExplicit, directoryID: directory.identifier)
    try setRecord(tagged(record).bytes, of: descriptor, mode: mode)
  }

  /// Writes the record of a new store's root.
  package static func writeRootRecord(
    to backing: borrowing Descriptor, defaultClass: ProtectionClass, volume: VolumeKeys
  ) throws {
    let record = DirectoryRecord(
      directoryClass: defaultClass, isExplicit: true, directoryID: try randomBytes(DirectoryRecord.identifierSize))
    try PathName(descriptor: backing).setAttribute(recordAttribute, to: volume.tagged(record).bytes)
  }

  /// Sets the record attribute of an open file; through /proc if the descriptor was opened with `O_PATH`.
  package func setRecord(
    _ bytes: [UInt8], of descriptor: borrowing Descriptor, mode: AttributeMode = .createOrReplace
  ) throws(Errno) {
    try ownerPermissions.ensuring(on: descriptor) { () throws(Errno) in
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

  /// A new record for a new directory.
  package func newDirectory(in parent: Node.Directory) throws(Errno) -> Node.Directory {
    let identifier = try records { () throws(CryptographyError) in try randomBytes(DirectoryRecord.identifierSize) }
    return Node.Directory(identifier: identifier, directoryClass: parent.directoryClass, isExplicit: false)
  }

  /// Gives a record to an empty directory that has none: a crash came between the two, or another writer has just made
  /// it. Whoever only reads leaves it as it is.
  private func adoptDirectory(_ node: Node, _ handle: SharedDescriptor) throws(Errno) -> Node.Directory {
    guard let parent = node.location?.parent, try isEmpty(handle) else {
      // That writer may have put something into it by now.
      if (try? recordBytes(of: handle.descriptor)) != nil { return try readDirectoryRecord(of: node, handle) }
      damaged(node, "the directory has no record")
      throw .ioError
    }
    let record = try newDirectory(in: directory(parent).record)
    guard options.writers.mayWrite else { return record }
    do throws(Errno) {
      try writeDirectoryRecord(record, to: handle.descriptor, mode: .create)
    } catch .fileExists {
      // Another request has just done the same.
      return try readDirectoryRecord(of: node, handle)
    }
    return record
  }

  private func isEmpty(_ handle: SharedDescriptor) throws(Errno) -> Bool {
    try openForListing(handle).nextNames().isEmpty
  }

  /// The record of a file in a directory.
  ///
  /// - Throws: `ENODATA` if the file has none.
  package func recordBytes(of name: PathName, in handle: SharedDescriptor) throws(Errno) -> [UInt8] {
    do throws(Errno) {
      return try handle.descriptor.linkAttribute(Self.recordAttribute, of: name)
    } catch .permissionDenied {
      return try recordBytes(of: handle.descriptor.open(name, [.path, .noFollow]))
    }
  }

  /// The record of an open file or directory; `O_PATH` is enough.
  ///
  /// - Throws: `ENODATA` if it has none.
  package func recordBytes(of descriptor: borrowing Descriptor) throws(Errno) -> [UInt8] {
    try ownerPermissions.ensuring(on: descriptor) { () throws(Errno) in
      try PathName(descriptor: descriptor).attribute(Self.recordAttribute)
    }
  }

  /// The record on disk of an open file.
  ///
  /// - Throws: `ENODATA` if it has none.
  func recordBytes(of file: ProtectedFile) throws(Errno) -> [UInt8] {
    try file.withDescriptor { (descriptor) throws(Errno) in
      try ownerPermissions.ensuring(on: descriptor) { () throws(Errno) in
        try descriptor.attribute(Self.recordAttribute)
      }
    }
  }

  /// The record and cipher of a new file in a class.
  ///
  /// - Throws: `EACCES` when no file can be created in the class now.
  package func newFileRecord(
    in fileClass: ProtectionClass, isExplicit: Bool = false
  ) throws(Errno) -> (FileRecord, ContentsCipher) {
    guard controller.allows(.create, on: fileClass) else { throw .permissionDenied }
    let key: FileKey
    do throws(CryptographyError) { key = try FileKey() } catch { throw errno(error) }
    let (keyID, wrappedKey) = try controller.wrap(key, for: fileClass)
    let record = try tagged(
      FileRecord(fileClass: fileClass, isExplicit: isExplicit, classKeyID: keyID, wrappedKey: wrappedKey))
    return (record, try options.layout.cipher(of: key, record))
  }

  private func records<Result>(_ body: () throws(CryptographyError) -> Result) throws(Errno) -> Result {
    do throws(CryptographyError) { return try body() } catch { throw errno(error) }
  }
}
