import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Writes a file such that its content is in the class from the first byte on.
struct ProtectedWrite {
  private let data: Data
  private let path: String
  private let protectionClass: ProtectionClass
  private let options: Data.WritingOptions

  /// - Parameter options: the options other than those for protection.
  init(_ data: Data, to path: String, in protectionClass: ProtectionClass, _ options: Data.WritingOptions) {
    self.data = data
    self.path = path
    self.protectionClass = protectionClass
    self.options = options
  }

  func run() throws(CocoaError) {
    try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      // A link keeps pointing to the file, even if the file does not exist yet.
      let path = try FinalTarget.of(path)
      let exists = options.contains(.withoutOverwriting) ? false : try isRegularFile(path)
      if exists, !options.contains(.atomic) { return try overwrite(path) }
      var file = try StagedFile(for: path, in: protectionClass)
      try file.write(data)
      try file.commit(mayReplace: !options.contains(.withoutOverwriting))
    }
  }

  /// Overwrites an existing file. It is opened first, so that nothing has changed if that is refused.
  private func overwrite(_ path: String) throws(Errno) {
    guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
    let file = try Descriptor.open(PathName(path), [.writeOnly, .noFollow])
    try file.setAttribute(ProtectionClass.attribute, to: Array(protectionClass.name.utf8))
    try file.truncate(to: 0)
    try unsafe data.bytes.withUnsafeBytes { (bytes) throws(Errno) in try unsafe file.write(bytes, at: 0) }
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
enum FinalTarget {
  /// Follows links like open(2). The target need not exist.
  static func of(_ path: String) throws(Errno) -> String {
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
