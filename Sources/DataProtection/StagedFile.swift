import DataProtectionCore
import Foundation
import Glibc
import LinuxIO
import SystemPackage

/// A file that is made beside its place, in its class, and then takes it.
struct StagedFile: ~Copyable {
  private let staging: StagingDirectory
  private let file: Descriptor
  private var length: UInt64 = 0

  /// Makes an empty file of the class beside a path, with the mode of the one that it may replace.
  ///
  /// - Throws: `ENOTSUP` where the path is on no protectfs mount, `EACCES` where the class is locked.
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

  /// Gives the file its name, once it is on disk.
  ///
  /// - Throws: `EEXIST` where another has the name and `mayReplace` is false.
  func commit(mayReplace: Bool = true) throws(Errno) {
    try file.synchronize()
    try staging.moveFile(mayReplace: mayReplace)
  }
}

/// A directory beside the place of a file, which has the file's class: so the file can be made while the class of the
/// directory that it is for is locked.
///
/// It goes with its value. A crash leaves it behind, under a name that says what it was, and unlocked; see
/// ``FoundationEssentials/FileManager/removeUnfinishedWrites(in:)``.
private struct StagingDirectory: ~Copyable {
  private let parent: Descriptor
  /// The directory itself, locked (flock(2)) while it is in use.
  private let directory: Descriptor
  private let directoryName: PathName
  /// The name that the file is to have.
  private let name: PathName
  private let path: String

  init(for path: String) throws(Errno) {
    let url = URL(fileURLWithPath: path)
    let parentPath = url.deletingLastPathComponent().path(percentEncoded: false)
    let directoryName = StagingName.make()
    let parent = try Descriptor.open(PathName(parentPath), [.readOnly, .directory])
    directory = try Self.makeDirectory(PathName(directoryName), in: parent)
    self.parent = parent
    self.directoryName = PathName(directoryName)
    self.path = "\(parentPath)/\(directoryName)"
    name = PathName(url.lastPathComponent)
  }

  private static func makeDirectory(_ name: PathName, in parent: borrowing Descriptor) throws(Errno) -> Descriptor {
    try parent.makeDirectory(name, mode: 0o700)
    let directory = try parent.open(name, [.readOnly, .directory, .noFollow])
    try directory.lock(isShared: false)
    return directory
  }

  deinit {
    // What was named is gone from here, and what cannot be removed is told by its name.
    try? directory.unlink(name)
    try? parent.removeDirectory(directoryName)
  }

  var filePath: String { "\(path)/\(name)" }

  /// Puts the directory into the class that what is made in it takes.
  func assign(_ protectionClass: ProtectionClass) throws(Errno) {
    try protectionClass.assign(toItemAt: path)
  }

  /// Makes the file, empty.
  func makeFile(in protectionClass: ProtectionClass) throws(Errno) -> Descriptor {
    let file = try directory.open(name, [.readWrite, .create, .exclusive], mode: 0o666)
    if let replaced = try? parent.status(of: name), replaced.type == .regular {
      try file.setMode(replaced.permissions & 0o777)
    }
    try Self.choose(protectionClass, for: file)
    return file
  }

  /// Has the class count as chosen, so that copies carry it. While it is locked that cannot be: the file has its class
  /// from its directory then, as inherited.
  private static func choose(_ protectionClass: ProtectionClass, for file: borrowing Descriptor) throws(Errno) {
    do throws(Errno) {
      try file.setAttribute(PathName(ProtectionClass.attributeName), to: Array(protectionClass.name.utf8))
    } catch .permissionDenied where protectionClass == .completeUnlessOpen {
      return
    }
  }

  /// Gives the file its name in the directory above.
  func moveFile(mayReplace: Bool) throws(Errno) {
    try directory.rename(name, to: name, in: parent, flags: mayReplace ? [] : .noReplace)
    try parent.synchronize()
  }
}
