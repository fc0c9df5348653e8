import SystemPackage

/// A directory on the way from the root of a tree to where a walk is. `Item` stands for it while it is open.
///
/// A tree may be deeper than a process may have files open: of the directories far below the root, one in 64 stays
/// open, and the others are opened again when they are wanted.
package final class NestedDirectory<Item: Sendable, Label: Sendable>: Sendable {
  /// Opens the directory, which must still be the same, in that above it.
  package typealias Opener = @Sendable (Item) throws(Errno) -> Item

  /// For the root, what was given.
  package let name: PathName
  package let label: Label
  private let depth: Int
  private let kept: Item?
  private let open: Opener
  /// Changed by `deinit` alone.
  nonisolated(unsafe) private var above: NestedDirectory?

  /// - Parameter parent: none for the root, which stays open.
  package init(
    _ name: PathName, _ item: Item, _ label: Label, in parent: NestedDirectory?, open: @escaping Opener
  ) {
    self.name = name
    self.label = label
    self.open = open
    depth = parent.map { $0.depth + 1 } ?? 0
    kept = depth < 64 || depth % 64 == 0 ? item : nil
    unsafe above = parent
  }

  deinit {
    // One after the other: references that end at once are followed on the stack.
    var next = unsafe above.take()
    while isKnownUniquelyReferenced(&next), let directory = next { next = unsafe directory.above.take() }
  }

  package var parent: NestedDirectory? { unsafe above }

  /// The names from the root on, which is the first.
  package var names: [PathName] {
    Array(sequence(first: self, next: \.parent).map(\.name).reversed())
  }

  /// The directory, opened again if need be.
  package func item() throws(Errno) -> Item {
    var (current, missing): (NestedDirectory, [NestedDirectory]) = (self, [])
    while current.kept == nil, let parent = current.parent {
      missing.append(current)
      current = parent
    }
    var item = current.kept!
    for directory in missing.reversed() { item = try directory.open(item) }
    return item
  }
}

extension NestedDirectory where Item == SharedDescriptor {
  /// A directory that was opened by its name in its parent.
  package convenience init(
    _ name: PathName, _ item: SharedDescriptor, _ label: Label, in parent: NestedDirectory?
  ) throws(Errno) {
    let status = try item.descriptor.status()
    self.init(name, item, label, in: parent) { (above) throws(Errno) in
      let again = SharedDescriptor(try above.descriptor.open(name, [.path, .directory, .noFollow]))
      guard try again.descriptor.status().isSame(as: status) else { throw .staleNFSFileHandle }
      return again
    }
  }

  /// The path of a name in this directory.
  package func path(of name: PathName) -> PathName { PathName(joining: names + [name]) }

  /// The path of this directory, for messages.
  var path: String { PathName(joining: names).description }
}

extension PathName {
  /// The path that leads through directories.
  fileprivate init(joining names: [PathName]) {
    var bytes: [UInt8] = []
    for name in names {
      if let last = bytes.last, last != UInt8(ascii: "/") { bytes.append(UInt8(ascii: "/")) }
      bytes += name.bytes
    }
    self.init(bytes: bytes)
  }
}

/// Where a walk through a tree is that visits each directory before what follows it: the directories from the root to
/// the deepest, each with the names that are left.
package struct TreeDescent<Item: Sendable, Label: Sendable> {
  package typealias Directory = NestedDirectory<Item, Label>

  private var levels: [(directory: Directory, item: Item?, names: ArraySlice<PathName>)] = []

  package init() {}

  /// The deepest directory; `nil` when the walk is done.
  package var directory: Directory? { levels.last?.directory }

  /// Goes down.
  package mutating func enter(_ directory: Directory, _ item: Item, _ names: some Sequence<PathName>) {
    // It may close what is above.
    if !levels.isEmpty { levels[levels.count - 1].item = nil }
    levels.append((directory, item, Array(names)[...]))
  }

  /// Adds names to the deepest directory.
  mutating func add(_ names: some Sequence<PathName>) { levels[levels.count - 1].names += names }

  /// Goes up.
  package mutating func leave() { levels.removeLast() }

  /// The next name in the deepest directory; `nil` at its end.
  package mutating func nextName() -> PathName? { levels[levels.count - 1].names.popFirst() }

  /// The deepest directory, opened again if need be.
  package mutating func item() throws(Errno) -> Item {
    let last = levels.count - 1
    if let item = levels[last].item { return item }
    let item = try levels[last].directory.item()
    levels[last].item = item
    return item
  }
}
