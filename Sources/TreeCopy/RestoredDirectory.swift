import ProtectfsIO
import Synchronization
import SystemPackage

/// A directory on both sides, while what is in it is restored. When that is done it gets what it could not have before.
final class RestoredDirectory: Sendable {
  let source: any SourceItem
  /// None in a dry run that would make it.
  let target: SharedDescriptor?
  /// From the root of the trees.
  let path: [PathName]
  let metadata: FileMetadata
  private let parent: RestoredDirectory?
  /// Who is at work in it: the walk, files that are being copied, directories in it.
  private let users = Atomic(1)

  init(
    _ source: any SourceItem, _ target: SharedDescriptor?, _ path: [PathName], _ metadata: FileMetadata,
    in parent: RestoredDirectory?
  ) {
    self.source = source
    self.target = target
    self.path = path
    self.metadata = metadata
    self.parent = parent
    parent?.enter()
  }

  /// Says that something more is done in it.
  func enter() { users.wrappingAdd(1, ordering: .relaxed) }

  /// Says that something is done; `finish` is called with each directory in which nothing more is done.
  func leave(_ finish: (RestoredDirectory) -> Void) {
    guard users.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
    finish(self)
    parent?.leave(finish)
  }

  /// Makes the names in it durable, and gives it the permissions and times that it is to have.
  func finish() throws(Errno) {
    guard let target else { return }
    // Not every file system has it for directories.
    try? target.descriptor.openQuietly(".", [.directory]).synchronize()
    let wanted = metadata.status.permissions
    // Made by this run or one that was killed: for the owner to write to, until now.
    if try target.descriptor.status().permissions == wanted | 0o700, wanted != wanted | 0o700 {
      try target.descriptor.setModeThroughPath(wanted)
    }
    try metadata.applyTimes(to: target)
  }
}
