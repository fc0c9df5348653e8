import Foundation
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

extension FileHandle {
  /// Creates a file in a class, and opens it for reading and writing.
  ///
  /// A file of class ``ProtectionClass/completeUnlessOpen`` can be created while locked. It can be written until it is
  /// closed, even if a lock comes while it is open, but it cannot be opened again before an unlock. A program that
  /// records data while locked should therefore keep the handle.
  /// - Throws: `CocoaError.fileWriteFileExists` (516) if the file exists, `CocoaError.fileWriteNoPermission` (513) if
  ///   the class is locked, `CocoaError.featureUnsupported` if the path is not on a protectfs mount.
  public convenience init(creatingFileAt url: URL, protection: FileProtectionType) throws {
    let path = try FileManager.path(of: url)
    let protectionClass = try protection.protectionClass
    let descriptor = try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      let file = try StagedFile(for: path, in: protectionClass)
      let descriptor = try file.duplicateDescriptor()
      try file.commit(mayReplace: false)
      return descriptor.release()
    }
    self.init(fileDescriptor: descriptor, closeOnDealloc: true)
  }
}
