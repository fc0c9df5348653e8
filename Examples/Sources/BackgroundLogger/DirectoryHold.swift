import Foundation
import Glibc

/// A flock(2) on a directory, which ends with its process at the latest.
struct DirectoryHold {
  private let descriptor: Int32

  init(_ directory: URL) throws {
    descriptor = unsafe open(directory.path(percentEncoded: false), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0, flock(descriptor, LOCK_EX) == 0 else {
      throw CocoaError(.fileLocking, userInfo: [NSFilePathErrorKey: directory.path(percentEncoded: false)])
    }
  }

  func release() { close(descriptor) }
}
