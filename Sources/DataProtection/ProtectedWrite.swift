import DataProtectionCore
import Foundation
import LinuxIO
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

  func run() throws {
    let exists = try isRegularFile()
    if exists && !options.contains(.atomic) && !options.contains(.withoutOverwriting) {
      try FileManager.default.setProtection(FileProtectionType(protectionClass), ofItemAt: URL(fileURLWithPath: path))
      let foundation: (URL, Data.WritingOptions) throws -> Void = data.write
      return try foundation(URL(fileURLWithPath: path), options)
    }
    // A link goes on pointing to the file.
    let path = exists ? URL(fileURLWithPath: path).resolvingSymlinksInPath().path(percentEncoded: false) : path
    try translating(.writing, path) { () throws(Errno) in
      var file = try StagedFile(for: path, in: protectionClass)
      try file.write(data)
      try file.commit(mayReplace: !options.contains(.withoutOverwriting))
    }
  }

  /// - Throws: where there is something else in the way: pipes and devices have no class, and are not to be replaced.
  private func isRegularFile() throws(CocoaError) -> Bool {
    do throws(Errno) {
      let type = try Descriptor.open(PathName(path), [.path]).status().type
      guard type == .regular else { throw type == .directory ? .isDirectory : .invalidArgument }
      return true
    } catch {
      if error == .noSuchFileOrDirectory { return false }
      throw CocoaError(error, .writing, path: path)
    }
  }
}
