import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A directory beside an item's place, in which the item is made before it is moved there. With the item's class, it
/// lets the item be created even while the class of its final directory is locked.
///
/// The directory is used through its descriptor: in a parent that others may write, they could replace it. It is
/// removed with what is in it when the object ends. A crash leaves it behind, unlocked and with a recognisable name:
/// ``UnfinishedWrites`` removes it.
final class StagingDirectory: Sendable {
  let parent: Descriptor
  /// The directory itself, locked (flock(2)) while it is in use.
  let directory: Descriptor
  private let directoryName: PathName
  /// The name that the item will have.
  let name: PathName

  init(for path: String) throws(Errno) {
    let directoryName = PathName(StagingName.make())
    // Opened without access, since the directory may be writable but not readable.
    let parent = try Descriptor.open(PathName(FileManager.parent(of: path)), [.path, .directory])
    directory = try Self.makeDirectory(directoryName, in: parent)
    UnfinishedWrites.removeNowAndThen(in: parent)
    self.parent = parent
    self.directoryName = directoryName
    name = PathName(URL(fileURLWithPath: path).lastPathComponent)
  }

  private static func makeDirectory(_ name: PathName, in parent: borrowing Descriptor) throws(Errno) -> Descriptor {
    try parent.makeDirectory(name, mode: 0o700)
    do throws(Errno) {
      let directory = try parent.open(name, [.readOnly, .directory, .noFollow])
      let status = try directory.status()
      let isOurs = status.user == ProtectfsIO.Process.identity.user && status.permissions & 0o077 == 0
      // Other file systems may have neither owners nor permissions: FAT, a share of a server.
      if !isOurs, try ProtectedDevices().contains(status) { throw .notPermitted }
      try directory.lock(isShared: false)
      return directory
    } catch {
      try? parent.removeDirectory(name)
      throw error
    }
  }

  deinit {
    // The item has been moved from here. What cannot be removed is recognisable by its name.
    try? directory.removeTree(name)
    try? parent.removeDirectory(directoryName)
  }

  var itemPath: String { "\(PathName(descriptor: directory))/\(name)" }

  /// Sets the directory's class, which what is created in it takes.
  func assign(_ protectionClass: ProtectionClass) throws(Errno) {
    try directory.setAttribute(ProtectionClass.attribute, to: Array(protectionClass.name.utf8))
  }

  /// Creates an empty file. With a class, which must be that of the directory, the file has it explicitly.
  func makeFile(in protectionClass: ProtectionClass?) throws(Errno) -> Descriptor {
    let file = try directory.open(name, [.readWrite, .create, .exclusive, .noFollow], mode: 0o666)
    if let protectionClass { try makeExplicit(protectionClass, for: file) }
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

  /// Makes the file that has the name now durable. If its class is locked, it cannot be opened, and is the staged file
  /// itself.
  func synchronizeFile() throws(Errno) {
    do throws(Errno) {
      try directory.open(name, [.readOnly, .noFollow]).synchronize()
    } catch {
      if error != .permissionDenied { throw error }
    }
  }

  /// Gives the item its name in the parent directory.
  func moveItem(mayReplace: Bool, isDurable: Bool = true) throws(Errno) {
    try directory.rename(name, to: name, in: parent, flags: mayReplace ? [] : .noReplace)
    guard isDurable else { return }
    // The item has its name. If the directory cannot be read, the name cannot be guaranteed to survive a power cut.
    if let directory = try? parent.open(".", [.readOnly, .directory]) { try? directory.synchronize() }
  }
}

extension ProtectionClass {
  /// ``attributeName`` in the kernel's form.
  static var attribute: PathName { PathName(attributeName) }
}
