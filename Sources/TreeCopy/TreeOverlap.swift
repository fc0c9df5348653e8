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
    if try source.descriptor.isInside(target.descriptor.status()) { return .sourceIsInTarget }
    if try target.descriptor.isInside(source.descriptor.status()) { return .targetIsInSource }
    guard let backing = try? SharedDescriptor(Descriptor.open(PathName(backing), [.path, .directory])) else {
      return nil
    }
    return try source.descriptor.isInside(backing.descriptor.status()) ? .sourceIsBacking : nil
  }
}
