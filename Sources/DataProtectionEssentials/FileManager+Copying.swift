import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import SystemPackage

// Foundation's calls that copy and move, which on Linux copy neither a class nor extended attributes.
// FileManager+Attributes.swift explains why these are properties.
extension FileManager {
  /// `copyItem(at:to:)`, which copies explicit classes and encrypted fields.
  public var copyItem: ItemCopying { ItemCopying(fileManager: self) }
  /// `moveItem(at:to:)`, which also keeps classes and encrypted fields between two mounts.
  public var moveItem: ItemMoving { ItemMoving(fileManager: self) }

  /// The calls `copyItem(at:to:)` and `copyItem(atPath:toPath:)`.
  public struct ItemCopying {
    fileprivate let fileManager: FileManager

    /// Copies a file, or a directory with all that is in it. If the source or the target is on a protectfs mount:
    ///
    /// - An explicit class and the encrypted fields are copied. An inherited class is inherited again, from the
    ///   directory of the copy.
    /// - The copy gets its name when it is complete and durable. One that fails, or whose program is killed, is never
    ///   found under that name. `removeUnfinishedWrites(in:)` removes what a killed program has left.
    /// - Outside of a mount there are no classes. A file that a lock makes unavailable (class A, B or CX), or that has
    ///   encrypted fields, is not copied to such a place, unless `allowingPlaintext` is `true`.
    ///
    /// The delegate is asked about each item. If it permits to proceed after an error, the copy lacks that item.
    /// Elsewhere this is Foundation's call.
    /// - Parameters:
    ///   - source: the item.
    ///   - target: the copy, which must not exist.
    ///   - allowingPlaintext: whether the copy may be plaintext, without class and fields, where there is no mount.
    /// - Throws: `CocoaError.fileReadNoPermission` (257) if the source is locked, `CocoaError.fileWriteNoPermission`
    ///   (513) if the class of the copy is, `CocoaError.featureUnsupported` if the copy would be plaintext, and
    ///   Foundation's errors.
    public func callAsFunction(at source: URL, to target: URL, allowingPlaintext: Bool = false) throws {
      try copy(FileManager.path(of: source, for: .reading), FileManager.path(of: target), allowingPlaintext) {
        fileManager in
        let foundation: (URL, URL) throws -> Void = fileManager.copyItem
        try foundation(source, target)
      }
    }

    /// Copies an item by its path.
    public func callAsFunction(
      atPath source: String, toPath target: String, allowingPlaintext: Bool = false
    ) throws {
      try copy(source, target, allowingPlaintext) { fileManager in
        let foundation: (String, String) throws -> Void = fileManager.copyItem
        try foundation(source, target)
      }
    }

    /// Copies an item, by Foundation's call where no mount is concerned.
    private func copy(
      _ source: String, _ target: String, _ allowingPlaintext: Bool, _ foundation: (FileManager) throws -> Void
    ) throws {
      guard try CopyPaths(source: source, target: target).concernMount() else {
        return try fileManager.callFoundation("copyItem", foundation)
      }
      let rules = ItemCopy.Rules(allowsPlaintext: allowingPlaintext)
      try ItemCopy(rules, asking: fileManager).run(from: source, to: target)
    }
  }

  /// The calls `moveItem(at:to:)` and `moveItem(atPath:toPath:)`.
  public struct ItemMoving {
    fileprivate let fileManager: FileManager

    /// Moves an item. It keeps its class, explicit or inherited, and its encrypted fields. Between two file systems it
    /// is copied, as `copyItem(at:to:)` does, and then removed. Only what was copied is removed: if others change the
    /// item meanwhile, it stays, and the call throws.
    ///
    /// - Parameters:
    ///   - source: the item.
    ///   - target: its new place, where nothing may be.
    ///   - allowingPlaintext: whether the item may become plaintext, without class and fields, where there is no mount.
    /// - Throws: as `copyItem(at:to:)`. The item is still at its place, unless its removal has failed.
    public func callAsFunction(at source: URL, to target: URL, allowingPlaintext: Bool = false) throws {
      try move(FileManager.path(of: source, for: .reading), FileManager.path(of: target), allowingPlaintext) {
        fileManager in
        let foundation: (URL, URL) throws -> Void = fileManager.moveItem
        try foundation(source, target)
      }
    }

    /// Moves an item by its path.
    public func callAsFunction(
      atPath source: String, toPath target: String, allowingPlaintext: Bool = false
    ) throws {
      try move(source, target, allowingPlaintext) { fileManager in
        let foundation: (String, String) throws -> Void = fileManager.moveItem
        try foundation(source, target)
      }
    }

    /// Moves an item, by Foundation's call where no mount is concerned.
    private func move(
      _ source: String, _ target: String, _ allowingPlaintext: Bool, _ foundation: (FileManager) throws -> Void
    ) throws {
      guard try CopyPaths(source: source, target: target).concernMount() else {
        return try fileManager.callFoundation("moveItem", foundation)
      }
      try ItemMove(fileManager, allowsPlaintext: allowingPlaintext).run(from: source, to: target)
    }
  }
}

extension CopyPaths {
  /// Whether something to be copied is on a mount, or the target is. A path that does not exist is on none.
  fileprivate func concernMount() throws(CocoaError) -> Bool {
    try FileManager.refuseNUL(in: source, .reading)
    try FileManager.refuseNUL(in: target)
    return try translating(.reading, source) { () throws(Errno) in
      let mounts = try MountedFileSystem.listed()
      guard !mounts.isEmpty else { return false }
      let devices = try ProtectedDevices()
      func isProtected(_ path: String, _ flags: OpenFlags) throws(Errno) -> Bool {
        do throws(Errno) {
          return try devices.contains(Descriptor.open(PathName(path), flags).status())
        } catch {
          // What cannot be reached, Foundation does not copy. After another error, it may be on a mount.
          guard error.isOutOfReach else { throw error }
          return false
        }
      }
      if try isProtected(source, [.path, .noFollow]) { return true }
      if try isProtected(FileManager.parent(of: target), [.path]) { return true }
      guard let path = try? PathName(source).canonical().description else { return false }
      return mounts.contains { $0.mountPoint.hasPrefix(path == "/" ? path : path + "/") }
    }
  }
}
