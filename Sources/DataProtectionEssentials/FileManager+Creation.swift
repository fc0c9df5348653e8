import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Foundation's calls that create, with `.protectionKey`. FileManager+Attributes.swift explains why these are
// properties.
extension FileManager {
  /// `createFile(atPath:contents:attributes:)`, which creates the file in its class.
  public var createFile: FileCreation { FileCreation(fileManager: self) }
  /// `createDirectory(at:withIntermediateDirectories:attributes:)`, which creates the directory in its class.
  public var createDirectory: DirectoryCreation { DirectoryCreation(fileManager: self) }

  /// The call `createFile(atPath:contents:attributes:)`.
  public struct FileCreation {
    fileprivate let fileManager: FileManager

    /// Creates or replaces a file, and returns whether that succeeded. If the attributes contain a class, the content
    /// is never stored in another class. Without one, a file on a mount that is replaced passes on its encrypted
    /// fields, its explicit class, its mode and its ACL.
    @discardableResult
    public func callAsFunction(
      atPath path: String, contents: Data?, attributes: [FileAttributeKey: Any]? = nil
    ) -> Bool {
      do {
        if try isCreated(path, contents ?? Data(), attributes) { return true }
      } catch {
        // The call cannot report an error in another way.
        return false
      }
      return fileManager.callFoundation("createFile") { fileManager in
        let foundation: (String, Data?, [FileAttributeKey: Any]?) -> Bool = fileManager.createFile
        return foundation(path, contents, attributes)
      }
    }

    /// Creates the file if Foundation would lose what protects it. Returns `false` if Foundation can create it.
    private func isCreated(
      _ path: String, _ contents: Data, _ attributes: [FileAttributeKey: Any]?
    ) throws -> Bool {
      try FileManager.refuseNUL(in: path)
      if let protection = try attributes?.protection {
        try ProtectedWrite(contents, to: path, in: protection.protectionClass, [.atomic]).run()
      } else {
        guard try ProtectedWrite.run(contents, to: URL(fileURLWithPath: path), .atomic) else { return false }
      }
      let others = attributes?.withoutProtection ?? [:]
      if !others.isEmpty { try fileManager.setAttributes(others, ofItemAtPath: path) }
      return true
    }
  }

  /// The calls `createDirectory(at:…)` and `createDirectory(atPath:…)`.
  public struct DirectoryCreation {
    fileprivate let fileManager: FileManager

    /// Creates a directory. With `withIntermediateDirectories`, missing directories above it get the attributes too.
    ///
    /// - Throws: as ``FileManager/setProtection(_:ofItemAt:)``, and Foundation's errors. A directory that could not be
    ///   given its class is not there.
    public func callAsFunction(
      at url: URL, withIntermediateDirectories createsIntermediates: Bool, attributes: [FileAttributeKey: Any]? = nil
    ) throws {
      let path = try FileManager.path(of: url)
      try create(path, createsIntermediates, attributes) { fileManager, prefix, createsIntermediates, attributes in
        let foundation: (URL, Bool, [FileAttributeKey: Any]?) throws -> Void = fileManager.createDirectory
        let url = prefix == path ? url : URL(fileURLWithPath: prefix, isDirectory: true)
        try foundation(url, createsIntermediates, attributes)
      }
    }

    /// Creates a directory by its path.
    public func callAsFunction(
      atPath path: String, withIntermediateDirectories createsIntermediates: Bool,
      attributes: [FileAttributeKey: Any]? = nil
    ) throws {
      try create(path, createsIntermediates, attributes) { fileManager, prefix, createsIntermediates, attributes in
        let foundation: (String, Bool, [FileAttributeKey: Any]?) throws -> Void = fileManager.createDirectory
        try foundation(prefix, createsIntermediates, attributes)
      }
    }

    /// Creates a directory with Foundation's method of the same signature, which a subclass may override. An override
    /// gets the class too.
    private func create(
      _ path: String, _ createsIntermediates: Bool, _ attributes: [FileAttributeKey: Any]?,
      _ foundation: (FileManager, String, Bool, [FileAttributeKey: Any]?) throws -> Void
    ) throws {
      func make(_ path: String, _ createsIntermediates: Bool, _ attributes: [FileAttributeKey: Any]?) throws {
        try fileManager.callFoundation("createDirectory") { fileManager in
          try foundation(fileManager, path, createsIntermediates, attributes)
        }
      }
      try FileManager.refuseNUL(in: path)
      guard let attributes, let protection = try attributes.protection else {
        return try make(path, createsIntermediates, attributes)
      }
      let mayOverride = fileManager.mayOverride("createDirectory")
      let prefixes = Self.prefixes(of: path)
      if !mayOverride {
        guard let existing = prefixes.last(where: fileManager.fileExists(atPath:)),
          try MountedFileSystem.containing(existing) != nil
        else { throw CocoaError.notProtected(path) }
      }
      for prefix in createsIntermediates ? prefixes : [path] {
        var isDirectory = false
        if createsIntermediates, fileManager.fileExists(atPath: prefix, isDirectory: &isDirectory), isDirectory {
          continue
        }
        do {
          guard mayOverride else {
            try Self.stage(prefix, in: protection.protectionClass, attributes.withoutProtection)
            continue
          }
          try make(prefix, false, attributes)
        } catch let error as CocoaError where error.code == .fileWriteFileExists && createsIntermediates {
          // Another thread or program was first.
          guard fileManager.fileExists(atPath: prefix, isDirectory: &isDirectory), isDirectory else { throw error }
          continue
        }
        // An override may have made nothing, as those of tests do, or have set a class of its own.
        if try Self.isSettled(prefix) { continue }
        do {
          try fileManager.setProtection(protection, ofItemAt: URL(fileURLWithPath: prefix))
        } catch {
          // Removes the directory if it is empty.
          try? Descriptor.open(PathName(FileManager.parent(of: prefix)), [.path, .directory])
            .removeDirectory(PathName(URL(fileURLWithPath: prefix).lastPathComponent))
          throw error
        }
      }
    }

    /// Makes a directory, which gets its name when it has its class: what others create in it, however early they find
    /// it, is in the class, and so it is after a crash.
    private static func stage(
      _ path: String, in protectionClass: ProtectionClass, _ others: [FileAttributeKey: Any]
    ) throws {
      let staging = try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
        // The rename finds out what exists; but beside a mount point nothing is staged.
        guard !PathName(path).isThere else { throw .fileExists }
        let staging = try StagingDirectory(for: path)
        try staging.directory.makeDirectory(staging.name, mode: 0o777)
        try protectionClass.assign(toItemAt: staging.itemPath)
        return staging
      }
      // Foundation, too, makes a directory that cannot be given all of them.
      if !others.isEmpty { try? FileManager().setAttributes(others, ofItemAtPath: staging.itemPath) }
      try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
        let made = try staging.directory.open(staging.name, [.path, .directory, .noFollow])
        let permissions = try made.status().permissions
        // A directory that its owner may not write cannot be moved to another directory (rename(2)).
        let isWritable = permissions & 0o200 != 0
        if !isWritable { try made.setModeThroughPath(permissions | 0o200) }
        try staging.moveItem(mayReplace: false)
        if !isWritable { try made.setModeThroughPath(permissions) }
      }
    }

    /// Whether there is no directory, or one with an explicit class.
    private static func isSettled(_ path: String) throws -> Bool {
      guard FileManager().fileExists(atPath: path) else { return true }
      guard try MountedFileSystem.containing(path) != nil else { return false }
      return try PathName(path).attributeNames().contains(ProtectionClass.attribute)
    }

    /// The path and all paths above it, starting at the root.
    private static func prefixes(of path: String) -> [String] {
      let isAbsolute = path.hasPrefix("/")
      var prefixes = [isAbsolute ? "/" : "."]
      var prefix = ""
      for component in path.split(separator: "/") {
        prefix += prefix.isEmpty && !isAbsolute ? "\(component)" : "/\(component)"
        prefixes.append(prefix)
      }
      return prefixes
    }
  }
}
