import Foundation
import Glibc
import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

extension FileHandle {
  /// Creates a file in a class, and opens it for reading and writing.
  ///
  /// A file of class ``ProtectionClass/completeUnlessOpen`` that is created while locked, and one that is open when a lock
  /// comes, can be written until it is closed; it cannot be opened again before an unlock. So what is recorded while locked
  /// keeps its handle.
  /// - Throws: `CocoaError.fileWriteFileExists` (516) where there is a file, `CocoaError.fileWriteNoPermission` (513) where
  ///   the class is locked, `CocoaError.featureUnsupported` where the path is on no protectfs mount.
  public convenience init(creatingFileAt url: URL, protection: FileProtectionType) throws {
    let path = try FileManager.path(of: url)
    let protectionClass = try protection.protectionClass
    let descriptor = try translating(.writing, path, asking: protectionClass) { () throws(Errno) in
      let file = try StagedFile(for: path, in: protectionClass)
      let descriptor = try file.duplicateDescriptor()
      do throws(Errno) {
        try file.commit(mayReplace: false)
      } catch {
        Glibc.close(descriptor)
        throw error
      }
      return descriptor
    }
    self.init(fileDescriptor: descriptor, closeOnDealloc: true)
  }
}
