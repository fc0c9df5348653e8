import Foundation
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A file that is made beside its place, in its class, and then takes it.
struct StagedFile: ~Copyable {
  private let staging: StagingDirectory
  private let file: Descriptor
  private var length: UInt64 = 0

  /// Makes an empty file of the class beside a path. From the file that it may replace it takes the mode, the owner where
  /// that is permitted, and the encrypted fields.
  ///
  /// - Throws: `ENOTSUP` where the path is on no protectfs mount, `EACCES` where the class is locked, or the fields are.
  init(for path: String, in protectionClass: ProtectionClass) throws(Errno) {
    let staging = try StagingDirectory(for: path)
    try staging.assign(protectionClass)
    file = try staging.makeFile(in: protectionClass)
    self.staging = staging
  }

  /// A path by which the file can be written while it is staged.
  var path: String { staging.filePath }

  /// Appends to the file.
  mutating func write(_ data: Data) throws(Errno) {
    try unsafe data.bytes.withUnsafeBytes { (bytes) throws(Errno) in try unsafe file.write(bytes, at: length) }
    length += UInt64(data.count)
  }

  /// A descriptor on the file, which the caller closes.
  func duplicateDescriptor() throws(Errno) -> CInt {
    let duplicate = fcntl(file.rawValue, F_DUPFD_CLOEXEC, 0)
    guard duplicate >= 0 else { throw Errno(rawValue: errno) }
    return duplicate
  }

  /// Gives the file its name, once it is on disk. What was written by its path may have replaced it.
  ///
  /// - Throws: `EEXIST` where another has the name and `mayReplace` is false.
  func commit(mayReplace: Bool = true) throws(Errno) {
    try file.synchronize()
    try staging.synchronizeFile()
    try staging.moveFile(mayReplace: mayReplace)
  }
}

/// A directory beside the place of a file, which has the file's class: so the file can be made while the class of the
/// directory that it is for is locked.
///
/// Used through its descriptor: in a directory that others may write too they could put another in its place. It goes with
/// its value. A crash leaves it behind, under a name that says what it was, and unlocked; see
/// ``FoundationEssentials/FileManager/removeUnfinishedWrites(in:)``.
private struct StagingDirectory: ~Copyable {
  private let parent: Descriptor
  /// The directory itself, locked (flock(2)) while it is in use.
  private let directory: Descriptor
  private let directoryName: PathName
  /// The name that the file is to have.
  private let name: PathName

  init(for path: String) throws(Errno) {
    let parentPath = FileManager.parent(of: path)
    guard try MountedFileSystem.find(containing: parentPath) != nil else { throw .notSupported }
    let directoryName = PathName(StagingName.make())
    // Without access, so that a directory that may be written and not be listed will do.
    let parent = try Descriptor.open(PathName(parentPath), [.path, .directory])
    directory = try Self.makeDirectory(directoryName, in: parent)
    self.parent = parent
    self.directoryName = directoryName
    name = PathName(URL(fileURLWithPath: path).lastPathComponent)
  }

  private static func makeDirectory(_ name: PathName, in parent: borrowing Descriptor) throws(Errno) -> Descriptor {
    try parent.makeDirectory(name, mode: 0o700)
    let directory = try parent.open(name, [.readOnly, .directory, .noFollow])
    let status = try directory.status()
    guard status.user == geteuid(), status.permissions & 0o077 == 0 else { throw .notPermitted }
    try directory.lock(isShared: false)
    return directory
  }

  deinit {
    // What was named is gone from here, and what cannot be removed is told by its name.
    try? directory.unlink(name)
    try? parent.removeDirectory(directoryName)
  }

  var filePath: String { "\(PathName(descriptor: directory))/\(name)" }

  /// Puts the directory into the class that what is made in it takes.
  func assign(_ protectionClass: ProtectionClass) throws(Errno) {
    try directory.setAttribute(ProtectionClass.attribute, to: Array(protectionClass.name.utf8))
  }

  /// Makes the file, empty.
  func makeFile(in protectionClass: ProtectionClass) throws(Errno) -> Descriptor {
    let file = try directory.open(name, [.readWrite, .create, .exclusive], mode: 0o666)
    try choose(protectionClass, for: file)
    if let replaced = try? parent.open(name, [.path, .noFollow]), try replaced.status().type == .regular {
      try take(from: replaced, to: file)
    }
    return file
  }

  /// Has the class count as chosen, so that copies carry it. While it is locked that cannot be: the file has its class
  /// from its directory then, as inherited.
  private func choose(_ protectionClass: ProtectionClass, for file: borrowing Descriptor) throws(Errno) {
    do throws(Errno) {
      try file.setAttribute(ProtectionClass.attribute, to: Array(protectionClass.name.utf8))
    } catch {
      let found = try file.attribute(ProtectionClass.attribute)
      guard error == .permissionDenied, found == Array(protectionClass.name.utf8) else { throw error }
    }
  }

  /// Takes over what a file that is written over keeps. Its fields need both classes: where one is locked they would be lost.
  private func take(from replaced: borrowing Descriptor, to file: borrowing Descriptor) throws(Errno) {
    let status = try replaced.status()
    if status.user != geteuid() { try? file.setOwner(user: status.user, group: status.group) }
    try file.setMode(status.permissions & 0o777)
    let path = PathName(descriptor: replaced)
    for field in try path.attributeNames() where EncryptedValues.isField(field) {
      try file.setAttribute(field, to: path.attribute(field))
    }
  }

  /// Has what has the file's name now on disk. Of a locked class, which cannot be opened, that is the file itself.
  func synchronizeFile() throws(Errno) {
    do throws(Errno) {
      try directory.open(name, [.readOnly, .noFollow]).synchronize()
    } catch {
      if error != .permissionDenied { throw error }
    }
  }

  /// Gives the file its name in the directory above.
  func moveFile(mayReplace: Bool) throws(Errno) {
    try directory.rename(name, to: name, in: parent, flags: mayReplace ? [] : .noReplace)
    // It has its name; that the name outlives a power cut is more than can be promised where the directory cannot be read.
    if let directory = try? parent.open(".", [.readOnly, .directory]) { try? directory.synchronize() }
  }
}

extension ProtectionClass {
  /// ``attributeName`` as the kernel takes it.
  static var attribute: PathName { PathName(attributeName) }
}
