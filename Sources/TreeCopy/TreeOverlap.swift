import ProtectfsIO
import SystemPackage

/// What two directories have to do with each other, of which one is to be copied into the other.
package enum TreeOverlap {
  case sourceIsInTarget
  case targetIsInSource
  /// The source is the ciphertext of the mount that is the target.
  case sourceIsBacking

  /// Finds out; `nil` for two that have nothing to do with each other.
  ///
  /// - Parameter backing: the backing directory of the target, as far as it can be reached.
  package static func of(
    source: SharedDescriptor, target: SharedDescriptor, backing: String
  ) throws(Errno) -> TreeOverlap? {
    if try lies(source, in: target) { return .sourceIsInTarget }
    if try lies(target, in: source) { return .targetIsInSource }
    guard let backing = try? SharedDescriptor(Descriptor.open(PathName(backing), [.path, .directory])) else {
      return nil
    }
    return try lies(source, in: backing) ? .sourceIsBacking : nil
  }

  /// Whether a directory is another or in it, by what they are and not by how they are called.
  private static func lies(_ directory: SharedDescriptor, in other: SharedDescriptor) throws(Errno) -> Bool {
    let wanted = try other.descriptor.status()
    var current = directory
    while true {
      let status = try current.descriptor.status()
      if status.isSame(as: wanted) { return true }
      let parent = SharedDescriptor(try current.descriptor.open("..", [.path, .directory]))
      let above = try parent.descriptor.status()
      if above.isSame(as: status) { return false }
      current = parent
    }
  }
}
