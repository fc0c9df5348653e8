import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A file that is written beside its place, in its class, and then moved there.
struct StagedFile: ~Copyable {
  private let staging: StagingDirectory
  private let file: Descriptor
  private var length: UInt64 = 0

  /// Creates an empty file of the class beside a path. If it will replace a file, it takes over the mode, the encrypted
  /// fields and, if permitted, the owner.
  ///
  /// - Throws: `ENOTSUP` if the path is not on a protectfs mount, `EACCES` if the class or the fields are locked.
  init(for path: String, in protectionClass: ProtectionClass) throws(Errno) {
    let staging = try StagingDirectory(for: path)
    try staging.assign(protectionClass)
    file = try staging.makeFile(in: protectionClass)
    self.staging = staging
  }

  /// A path by which the staged file can be written.
  var path: String { staging.filePath }

  /// Appends to the file.
  mutating func write(_ data: Data) throws(Errno) {
    try unsafe data.bytes.withUnsafeBytes { (bytes) throws(Errno) in try unsafe file.write(bytes, at: length) }
    length += UInt64(data.count)
  }

  /// Another descriptor of the file.
  func duplicateDescriptor() throws(Errno) -> Descriptor { try Descriptor(duplicating: file.rawValue) }

  /// Makes the file durable and gives it its name. A program that wrote it by its path may have replaced it.
  ///
  /// - Throws: `EEXIST` if the name exists and `mayReplace` is false.
  func commit(mayReplace: Bool = true) throws(Errno) {
    try file.synchronize()
    try staging.synchronizeFile()
    try staging.moveFile(mayReplace: mayReplace)
  }
}

/// A directory beside the file's place, in the file's class, so that the file can be created even while the class of
/// its final directory is locked.
///
/// The directory is used through its descriptor: in a parent that others may write, they could replace it. It is
/// removed when the value is destroyed. A crash leaves it behind, unlocked and with a recognisable name; see
/// ``FoundationEssentials/FileManager/removeUnfinishedWrites(in:)``.
private struct StagingDirectory: ~Copyable {
  private let parent: Descriptor
  /// The directory itself, locked (flock(2)) while it is in use.
  private let directory: Descriptor
  private let directoryName: PathName
  /// The name that the file will have.
  private let name: PathName

  init(for path: String) throws(Errno) {
    let parentPath = FileManager.parent(of: path)
    guard try MountedFileSystem.find(containing: parentPath) != nil else { throw .notSupported }
    let directoryName = PathName(StagingName.make())
    // Opened without access, since the directory may be writable but not readable.
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
    guard status.user == ProtectfsIO.Process.identity.user, status.permissions & 0o077 == 0 else { throw .notPermitted }
    try directory.lock(isShared: false)
    return directory
  }

  deinit {
    // The file has been moved from here. What cannot be removed is recognisable by its name.
    try? directory.unlink(name)
    try? parent.removeDirectory(directoryName)
  }

  var filePath: String { "\(PathName(descriptor: directory))/\(name)" }

  /// Sets the directory's class, which what is created in it takes.
  func assign(_ protectionClass: ProtectionClass) throws(Errno) {
    try directory.setAttribute(ProtectionClass.attribute, to: Array(protectionClass.name.utf8))
  }

  /// Creates the file, empty.
  func makeFile(in protectionClass: ProtectionClass) throws(Errno) -> Descriptor {
    let file = try directory.open(name, [.readWrite, .create, .exclusive], mode: 0o666)
    try makeExplicit(protectionClass, for: file)
    if let replaced = try? parent.open(name, [.path, .noFollow]), try replaced.status().type == .regular {
      try take(from: replaced, to: file)
    }
    return file
  }

  /// Makes the class explicit, so that copies keep it. This fails while the class is locked; the file then has the
  /// class of its directory, as inherited.
  private func makeExplicit(_ protectionClass: ProtectionClass, for file: borrowing Descriptor) throws(Errno) {
    do throws(Errno) {
      try file.setAttribute(ProtectionClass.attribute, to: Array(protectionClass.name.utf8))
    } catch {
      let found = try file.attribute(ProtectionClass.attribute)
      guard error == .permissionDenied, found == Array(protectionClass.name.utf8) else { throw error }
    }
  }

  /// Copies what a replaced file passes on. Its fields need both classes: they would be lost if either is locked.
  private func take(from replaced: borrowing Descriptor, to file: borrowing Descriptor) throws(Errno) {
    let status = try replaced.status()
    if status.user != ProtectfsIO.Process.identity.user { try? file.setOwner(user: status.user, group: status.group) }
    try file.setMode(status.permissions & 0o777)
    let path = PathName(descriptor: replaced)
    for field in try path.attributeNames() where EncryptedValues.isField(field) {
      try file.setAttribute(field, to: path.attribute(field))
    }
  }

  /// Makes the file that has the name now durable. If its class is locked, it cannot be opened, and is the staged file
  /// itself.
  func synchronizeFile() throws(Errno) {
    do throws(Errno) {
      try directory.open(name, [.readOnly, .noFollow]).synchronize()
    } catch {
      if error != .permissionDenied { throw error }
    }
  }

  /// Gives the file its name in the parent directory.
  func moveFile(mayReplace: Bool) throws(Errno) {
    try directory.rename(name, to: name, in: parent, flags: mayReplace ? [] : .noReplace)
    // The file has its name. If the directory cannot be read, the name cannot be guaranteed to survive a power cut.
    if let directory = try? parent.open(".", [.readOnly, .directory]) { try? directory.synchronize() }
  }
}

extension ProtectionClass {
  /// ``attributeName`` in the kernel's form.
  static var attribute: PathName { PathName(attributeName) }
}
