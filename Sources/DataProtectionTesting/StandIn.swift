import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A directory of an ordinary file system, with the classes and states of a mount.
///
/// Classes and fields are extended attributes, as on a mount. While a class is locked, its files have no permissions.
final class StandIn: StandInMount {
  /// What a locked file had.
  private struct Withheld {
    let mode: UInt32
    let protectionClass: ProtectionClass
  }

  private struct State {
    var lockState = LockState.unlocked
    /// The locked files, by inode number.
    var withheld: [UInt64: Withheld] = [:]
  }

  let mount: MountedFileSystem
  private let root: PathName
  private let state = RankedMutex(.standInState, State())

  /// - Throws: `ENOTSUP` if the file system of the directory has no extended attributes.
  init(_ path: String) throws(Errno) {
    root = try PathName(path).canonical()
    mount = MountedFileSystem(standIn: root.description)
    try Self.setClass(.standard, of: root)
    try setState(.unlocked)
    StandInMounts.add(self)
  }

  func remove() {
    StandInMounts.remove(self)
  }

  /// Locks or unlocks.
  func change(to lockState: LockState) throws(Errno) {
    for path in try items() { try update(path, for: lockState) }
    try setState(lockState)
  }

  // MARK: Classes

  func protectionClass(ofItemAt path: PathName) throws(Errno) -> ProtectionClass {
    let status = try Descriptor.open(path, [.path]).status()
    if let withheld = state.withLock({ $0.withheld[status.inode] }) { return withheld.protectionClass }
    return try inherited(try path.canonical())
  }

  /// The class that the path has, or the nearest directory above it that has one.
  private func inherited(_ path: PathName) throws(Errno) -> ProtectionClass {
    do throws(Errno) {
      let name = String(decoding: try path.attribute(PathName(ProtectionClass.attributeName)), as: UTF8.self)
      return ProtectionClass(name: name) ?? .standard
    } catch {
      guard error == .noData, path != root else { throw error }
    }
    return try inherited(PathName(URL(filePath: path.description).deletingLastPathComponent().path))
  }

  func assign(_ protectionClass: ProtectionClass, toItemAt path: PathName) throws(Errno) {
    let path = try path.canonical()
    if try type(of: path) == .regular {
      try require(.rewrapFrom, try self.protectionClass(ofItemAt: path))
      try require(.rewrapTo, protectionClass)
    } else {
      // What is in a directory keeps its class.
      for name in try DirectoryNames(Descriptor.open(path, [.readOnly, .directory])).all(limit: .max) {
        let item = PathName("\(path)/\(name)")
        let type = try type(of: item)
        if type == .regular || type == .directory {
          try Self.setClass(try self.protectionClass(ofItemAt: item), of: item)
        }
      }
    }
    try Self.setClass(protectionClass, of: path)
    try didCreateItem(at: path)
  }

  func requireCreation(in protectionClass: ProtectionClass) throws(Errno) {
    try require(.create, protectionClass)
  }

  func didCreateItem(at path: PathName) throws(Errno) {
    try update(try path.canonical(), for: lockState)
  }

  private func require(_ operation: ProtectionPolicy.Operation, _ protectionClass: ProtectionClass) throws(Errno) {
    guard ProtectionPolicy.access(for: operation, on: protectionClass, in: lockState) == .allowed else {
      throw .permissionDenied
    }
  }

  private static func setClass(_ protectionClass: ProtectionClass, of path: PathName) throws(Errno) {
    try path.setAttribute(PathName(ProtectionClass.attributeName), to: Array(protectionClass.name.utf8))
  }

  // MARK: States

  private var lockState: LockState { state.withLock { $0.lockState } }

  private func setState(_ lockState: LockState) throws(Errno) {
    state.withLock { $0.lockState = lockState }
    try root.setAttribute(PathName(LockState.attributeName), to: Array(lockState.rawValue.utf8))
  }

  /// Takes a file's permissions, or gives them back, as its class demands in a state.
  private func update(_ path: PathName, for lockState: LockState) throws(Errno) {
    guard try type(of: path) == .regular else { return }
    let file = try Descriptor.open(path, [.path, .noFollow])
    let status = try file.status()
    let withheld = state.withLock { $0.withheld[status.inode] }
    let protectionClass =
      if let withheld { withheld.protectionClass } else { try inherited(path) }
    let isOpen = ProtectionPolicy.access(for: .open, on: protectionClass, in: lockState) == .allowed
    if isOpen, let withheld {
      try file.setModeThroughPath(withheld.mode)
      _ = state.withLock { $0.withheld.removeValue(forKey: status.inode) }
    } else if !isOpen, withheld == nil {
      let taken = Withheld(mode: status.permissions, protectionClass: protectionClass)
      state.withLock { $0.withheld[status.inode] = taken }
      try file.setModeThroughPath(0)
    }
  }

  private func items() throws(Errno) -> [PathName] {
    guard let names = try? FileManager.default.subpathsOfDirectory(atPath: root.description) else {
      throw .ioError
    }
    return names.map { PathName("\(root)/\($0)") }
  }

  private func type(of path: PathName) throws(Errno) -> InodeType? {
    try Descriptor.open(path, [.path, .noFollow]).status().type
  }
}
