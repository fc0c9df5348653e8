import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

// Targets of symbolic links: encrypted in the backing link's text, or in a long symlink file that the text names.
extension BackingTree {
  /// The text of a backing link to a target and, if the target does not fit, the long symlink file that now holds it.
  ///
  /// - Throws: `ENAMETOOLONG` for a target above 4095 bytes, or the error of writing the file.
  package func backingText(forTarget target: PathName) throws(Errno) -> (text: PathName, long: LongTarget?) {
    let encrypted = try encrypt(target)
    guard target.bytes.count > NameEncoding.longestDirectTarget else {
      return (PathName(bytes: NameEncoding.encode(encrypted)), nil)
    }
    let long = try writeLongSymlinkFile(encrypted)
    return (PathName(bytes: long.text), long)
  }

  /// The target of a symbolic link.
  ///
  /// - Throws: `EINVAL` for a node of another type, `EIO` for a text that does not belong to this store.
  package func target(of node: Node) throws(Errno) -> PathName {
    guard node.isSymbolicLink else { throw .invalidArgument }
    let text = try text(of: node)
    guard let encrypted = try LongTarget(text: text).map(readLongSymlinkFile) ?? NameEncoding.decode(text) else {
      throw .ioError
    }
    do throws(CryptographyError) {
      return PathName(bytes: try volume.symbolicLinks.decrypt(encrypted, associatedData: nil))
    } catch {
      throw .ioError
    }
  }

  /// The length of a link's target. It follows from the length of the backing link; only for a long target the link is
  /// read.
  package func targetCount(of node: Node, _ status: Status) -> UInt64 {
    if let count = NameEncoding.targetCount(textCount: Int(status.size)) { return UInt64(count) }
    // A text that is no encoded target is shown with its own length. Reading it fails.
    guard status.size == LongTarget.textCount, let text = try? text(of: node), let long = LongTarget(text: text)
    else { return status.size }
    return UInt64(long.count)
  }

  /// The long symlink file of a link that is about to lose its last name.
  func longTarget(of link: borrowing Descriptor, _ status: Status) throws(Errno) -> LongTarget? {
    guard status.type == .symbolicLink, status.size == LongTarget.textCount else { return nil }
    return LongTarget(text: try link.target(ofSymbolicLink: ""))
  }

  private func text(of node: Node) throws(Errno) -> [UInt8] {
    try reference(to: node).withDescriptor { (descriptor) throws(Errno) in
      try descriptor.target(ofSymbolicLink: "")
    }
  }

  private func encrypt(_ target: PathName) throws(Errno) -> [UInt8] {
    guard target.bytes.count <= NameEncoding.longestTarget else { throw .fileNameTooLong }
    do throws(CryptographyError) {
      return try volume.symbolicLinks.encrypt(Array(target.bytes), associatedData: nil)
    } catch {
      throw errno(error)
    }
  }

  // MARK: Long symlink files

  /// Writes a long symlink file and makes it durable, because no caller can ask for that later: a link cannot be opened
  /// for fsync(2).
  private func writeLongSymlinkFile(_ encrypted: [UInt8]) throws(Errno) -> LongTarget {
    let token: [UInt8]
    do throws(CryptographyError) { token = try randomBytes(LongTarget.tokenCount) } catch { throw errno(error) }
    let target = LongTarget(token: token, count: encrypted.count - NameEncoding.overhead)
    do throws(Errno) {
      try root.descriptor.makeDirectory(PathName(LongTarget.directoryPath), mode: 0o700)
    } catch .fileExists {
      // The directory is created with the first long target.
    }
    let directory = try longSymlinkDirectory()
    let file = try directory.open(
      PathName(bytes: target.fileName), [.writeOnly, .create, .exclusive, .noFollow], mode: 0o600)
    do throws(Errno) {
      try file.write(encrypted)
      try file.synchronize()
      try directory.synchronize()
    } catch {
      removeLongSymlinkFile(of: target)
      throw error
    }
    return target
  }

  private func readLongSymlinkFile(_ target: LongTarget) throws(Errno) -> [UInt8] {
    let file = try longSymlinkDirectory().open(PathName(bytes: target.fileName), [.readOnly, .noFollow, .nonBlocking])
    let encrypted = try file.readAll(limit: target.fileSize + 1)
    guard encrypted.count == target.fileSize else { throw .ioError }
    return encrypted
  }

  /// Removes the long symlink file of a link that is gone. If that fails, the file is a leftover, not an error.
  package func removeLongSymlinkFile(of target: LongTarget) {
    do throws(Errno) {
      try longSymlinkDirectory().unlink(PathName(bytes: target.fileName))
    } catch {
      log.warning("a long symlink file was left behind", metadata: ["error": "\(error)"])
    }
  }

  private func longSymlinkDirectory() throws(Errno) -> Descriptor {
    try root.descriptor.open(PathName(LongTarget.directoryPath), [.readOnly, .directory, .noFollow])
  }
}
