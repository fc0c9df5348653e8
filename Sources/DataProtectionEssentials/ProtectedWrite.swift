import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Writes a file such that its content is in the class from the first byte on.
package struct ProtectedWrite {
  private let data: Data
  private let path: String
  /// The explicit class of the file; `nil` if it inherits that of its directory.
  private let protectionClass: ProtectionClass?
  private let options: Data.WritingOptions

  /// - Parameter options: the options other than those for protection.
  package init(_ data: Data, to path: String, in protectionClass: ProtectionClass?, _ options: Data.WritingOptions) {
    self.data = data
    self.path = path
    self.protectionClass = protectionClass
    self.options = options
  }

  /// Writes a file if the options specify a class, or if Foundation's write would lose what protects it. Returns
  /// `false` if Foundation can write it.
  package static func run(_ data: Data, to url: URL, _ options: Data.WritingOptions) throws -> Bool {
    let others = options.subtracting(.fileProtectionMask)
    if let protectionClass = try options.protectionClass {
      try ProtectedWrite(data, to: FileManager.path(of: url), in: protectionClass, others).run()
      return true
    }
    guard url.isFileURL else { return false }
    let path = try FileManager.path(of: url)
    guard options.contains(.atomic), !options.contains(.withoutOverwriting) else { return false }
    let loss = try translating(.writing, path) { () throws(Errno) in try ReplacementLoss(ofFileAt: path) }
    guard let loss else { return false }
    try ProtectedWrite(data, to: path, in: loss.explicitClass, others).run()
    return true
  }

  package func run() throws(CocoaError) {
    try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      // A link keeps pointing to the file, even if the file does not exist yet.
      let path = try FinalTarget.of(path)
      let exists = options.contains(.withoutOverwriting) ? false : try isRegularFile(path)
      if exists, !options.contains(.atomic), let protectionClass { return try overwrite(path, in: protectionClass) }
      var file = try StagedFile(for: path, in: protectionClass)
      try file.write(data)
      try file.commit(
        mayReplace: !options.contains(.withoutOverwriting), isDurable: exists || options.contains(.atomic))
    }
  }

  /// Overwrites an existing file, which stays the same file, for those that have it open and under all its names. It is
  /// opened first, and space is reserved, so that nothing has changed if there is none, or if the change is refused.
  private func overwrite(_ path: String, in protectionClass: ProtectionClass) throws(Errno) {
    guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
    let file = try Descriptor.open(PathName(path), [.writeOnly, .noFollow])
    let oldSize = try file.status().size
    do throws(Errno) {
      try reserve(in: file)
      try protectionClass.assign(toItemAt: PathName(descriptor: file).description)
    } catch {
      // Frees what was reserved beyond the end. The error of the change says more than one of this would.
      try? file.truncate(to: oldSize)
      throw error
    }
    try unsafe data.bytes.withUnsafeBytes { (bytes) throws(Errno) in try unsafe file.write(bytes, at: 0) }
    try file.truncate(to: UInt64(data.count))
    // The kernel writes back later, and reports only here what then fails.
    try file.synchronize()
  }

  /// Reserves the space of the new content. The old one is not truncated before: its space might go to others.
  private func reserve(in file: borrowing Descriptor) throws(Errno) {
    if data.isEmpty { return }
    do throws(Errno) {
      try file.allocate(.keepSize, offset: 0, length: UInt64(data.count))
    } catch {
      // Some backing file systems cannot; the synchronisation finds out there.
      if error != .notSupported && error != .noFunction { throw error }
    }
  }

  /// Whether there is a regular file.
  ///
  /// - Throws: if there is a file of another type. Pipes and devices have no class, and must not be replaced.
  private func isRegularFile(_ path: String) throws(Errno) -> Bool {
    let type: InodeType?
    do throws(Errno) {
      type = try Descriptor.open(PathName(path), [.path, .noFollow]).status().type
    } catch {
      if error == .noSuchFileOrDirectory { return false }
      throw error
    }
    guard type == .regular else { throw type == .directory ? .isDirectory : .invalidArgument }
    return true
  }
}

/// The file that a path leads to if its last component is a symbolic link.
package enum FinalTarget {
  /// Follows links like open(2). The target need not exist.
  package static func of(_ path: String) throws(Errno) -> String {
    var path = URL(fileURLWithPath: path).path(percentEncoded: false)
    for _ in 0..<40 {
      let parent = FileManager.parent(of: path)
      guard let directory = try? Descriptor.open(PathName(parent), [.path, .directory]),
        let target = try? directory.target(ofSymbolicLink: PathName(URL(fileURLWithPath: path).lastPathComponent))
      else { return path }
      let text = String(decoding: target, as: UTF8.self)
      path = text.utf8.first == UInt8(ascii: "/") ? text : "\(parent)/\(text)"
    }
    throw .tooManySymbolicLinkLevels
  }
}
