import ProtectfsIO
import ProtectfsPolicy

/// The names that files of an explicit class have left, by unlink(2) or by being moved away, and these classes. Programs
/// that save in this way create the successor under that name. In memory only, and bounded.
package final class VacatedNames: Sendable {
  private struct Name: Hashable {
    let parent: Node.Identity
    let name: PathName

    init(_ location: Node.Location) {
      parent = location.parent.identity
      name = location.name
    }
  }

  private static let limit = 1024

  private let classes = RankedMutex<[Name: ProtectionClass]>(.movedNames, [:])

  /// Notes that a name was left: by a file of an explicit class, or with `nil` by anything else.
  package func note(_ location: Node.Location, _ explicitClass: ProtectionClass?) {
    classes.withLock { classes in
      if classes.count == Self.limit { classes.removeAll() }
      classes[Name(location)] = explicitClass
    }
  }

  /// The explicit class of the file that was the last to leave a name.
  package func fileClass(at location: Node.Location) -> ProtectionClass? {
    classes.withLock { $0.isEmpty ? nil : $0[Name(location)] }
  }
}
