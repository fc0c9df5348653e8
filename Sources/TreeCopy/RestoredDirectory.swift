import ProtectfsIO
import Synchronization
import SystemPackage

/// A directory on both sides.
struct Sides: Sendable {
  let source: any SourceItem
  /// None in a dry run that would make it.
  let target: SharedDescriptor?

  /// Opens both again, which must still be the same.
  func opener(_ name: PathName, _ status: Status) -> @Sendable (Sides) throws(Errno) -> Sides {
    let kept = source.holdsDescriptor ? nil : source
    let there = target.map { target in Result { () throws(Errno) in try target.status() } }
    return { (above) throws(Errno) in
      let source = if let kept { kept } else { try above.source.item(name).same(as: status) }
      guard let parent = above.target, let there else { return Sides(source: source, target: nil) }
      let target = SharedDescriptor(try parent.descriptor.open(name, [.path, .directory, .noFollow]))
      return Sides(source: source, target: try target.same(as: there.get()))
    }
  }
}

extension SourceItem {
  /// - Throws: `ESTALE` if this is another file.
  fileprivate func same(as known: Status) throws(Errno) -> Self {
    guard try status().isSame(as: known) else { throw .staleNFSFileHandle }
    return self
  }
}

/// A directory on both sides, while what is in it is restored. When that is done it gets what it could not have before.
typealias RestoredDirectory = NestedDirectory<Sides, RestoredMetadata>

/// What a directory gets in the end.
final class RestoredMetadata: Sendable {
  let metadata: FileMetadata
  /// Who is at work in it: the walk, files that are being copied, directories in it.
  private let users = Atomic(1)

  init(_ metadata: FileMetadata) { self.metadata = metadata }

  /// Says that something more is done in it.
  func enter() { users.wrappingAdd(1, ordering: .relaxed) }

  /// Says that something is done. Returns whether nothing more is.
  func leave() -> Bool { users.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 }
}

extension NestedDirectory where Item == Sides, Label == RestoredMetadata {
  /// From the root of the trees.
  var path: [PathName] { Array(names.dropFirst()) }

  /// Makes the names in it durable, and gives it the permissions and times that it is to have.
  func finish() throws(Errno) {
    guard let target = try item().target else { return }
    // Not every file system has it for directories.
    try? target.descriptor.openQuietly(".", [.directory]).synchronize()
    let wanted = label.metadata.status.permissions
    // Made by this run or one that was killed: for the owner to write to, until now.
    if try target.descriptor.status().permissions == wanted | 0o700, wanted != wanted | 0o700 {
      try target.descriptor.setModeThroughPath(wanted)
    }
    try label.metadata.applyTimes(to: target)
  }
}
