import Foundation
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Writes a file so that its content is in its class from the first byte on.
struct ProtectedWrite {
  private let data: Data
  private let path: String
  private let protectionClass: ProtectionClass
  private let options: Data.WritingOptions

  /// - Parameter options: those that are not about protection.
  init(_ data: Data, to path: String, in protectionClass: ProtectionClass, _ options: Data.WritingOptions) {
    self.data = data
    self.path = path
    self.protectionClass = protectionClass
    self.options = options
  }

  func run() throws(CocoaError) {
    try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      // A link goes on pointing to the file, also where that is not there yet.
      let path = try FinalTarget.of(path)
      let exists = options.contains(.withoutOverwriting) ? false : try isRegularFile(path)
      if exists, !options.contains(.atomic) { return try overwrite(path) }
      var file = try StagedFile(for: path, in: protectionClass)
      try file.write(data)
      try file.commit(mayReplace: !options.contains(.withoutOverwriting))
    }
  }

  /// Writes over a file that is there. It is opened first: where that is refused, nothing has changed.
  private func overwrite(_ path: String) throws(Errno) {
    guard try MountedFileSystem.find(containing: path) != nil else { throw .notSupported }
    let file = try Descriptor.open(PathName(path), [.writeOnly, .noFollow])
    try file.setAttribute(ProtectionClass.attribute, to: Array(protectionClass.name.utf8))
    try file.truncate(to: 0)
    try unsafe data.bytes.withUnsafeBytes { (bytes) throws(Errno) in try unsafe file.write(bytes, at: 0) }
  }

  /// - Throws: where there is something else in the way: pipes and devices have no class, and are not to be replaced.
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

/// Where a path leads, when its last component is a symbolic link.
enum FinalTarget {
  /// As open(2) follows links: the target need not exist.
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
