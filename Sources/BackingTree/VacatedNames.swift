import ProtectfsIO
import ProtectfsPolicy
import StoreFormat

/// The names that files of an explicit class have left, by unlink(2) or by being moved away: programs that save in this
/// way create the successor under that name. In memory only, for one to two minutes, and the last 512 at least.
package final class VacatedNames: Sendable {
  /// What is known of the file that has left a name.
  package struct Former: Sendable {
    package let fileClass: ProtectionClass
    /// Its owner. What others create there is no successor.
    package let user: UInt32

    package init(fileClass: ProtectionClass, user: UInt32) {
      self.fileClass = fileClass
      self.user = user
    }
  }

  private struct Name: Hashable {
    let parent: Node.Identity
    let name: PathName

    init(_ location: Node.Location) {
      parent = location.parent.identity
      name = location.name
    }
  }

  /// Those that were left since a moment, and before it.
  private struct State {
    var recent: [Name: Former] = [:]
    var earlier: [Name: Former] = [:]
    var start: Int64 = 0

    var isEmpty: Bool { recent.isEmpty && earlier.isEmpty }

    mutating func age() {
      let now = MonotonicClock.nanoseconds
      guard now - start >= VacatedNames.period || recent.count >= VacatedNames.limit else { return }
      earlier = now - start < 2 * VacatedNames.period ? recent : [:]
      recent = [:]
      start = now
    }
  }

  private static let limit = 512
  /// In nanoseconds.
  private static let period: Int64 = 60_000_000_000

  private let state = RankedMutex(.movedNames, State())

  package init() {}

  /// Notes that a name was left: by a file of an explicit class, or with `nil` by something else.
  package func note(_ location: Node.Location, _ former: Former?) {
    state.withLock { state in
      guard former != nil || !state.isEmpty else { return }
      state.age()
      let name = Name(location)
      state.earlier[name] = nil
      state.recent[name] = former
    }
  }

  /// The file that was the last to leave a name, if that was one of an explicit class.
  package func former(at location: Node.Location) -> Former? {
    state.withLock { state in
      guard !state.isEmpty else { return nil }
      state.age()
      let name = Name(location)
      return state.recent[name] ?? state.earlier[name]
    }
  }
}

extension BackingTree {
  /// Whether the class of a regular file is explicit, by what is known of the file, or else by what its record says,
  /// whose tag is not checked. Of a file that its owner may not read, and the daemon may not either, that is not known.
  package func saysExplicit(_ named: NamedFile) -> Bool {
    if let node = nodes.find(named.status), let known = recordSource.knownClass(of: node) {
      return known.isExplicit
    }
    guard let bytes = try? PathName(descriptor: named.file.descriptor).attribute(Self.recordAttribute) else {
      return false
    }
    return FileRecord.saysExplicit(bytes)
  }
}
