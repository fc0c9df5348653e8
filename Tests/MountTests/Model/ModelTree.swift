import ProtectfsIO
import ProtectfsPolicy

/// A name in the kernel's form.
typealias ModelName = [UInt8]

/// A file, directory or symbolic link of the model.
struct ModelInode {
  enum Kind { case file, directory, symbolicLink }

  let kind: Kind
  var mode: UInt32
  var time: ModelTime
  /// The number of names of a file or link; a directory has one.
  var links = 1
  /// For files and directories.
  var fileClass: ProtectionClass?
  var isExplicit = false
  var attributes: [String: [UInt8]] = [:]
  /// The inode number, once it is known.
  var serial: UInt64?

  // For files.
  var contents = ModelContents()
  /// The contents since the last synchronisation. A crash may leave any of them.
  var earlier: [ModelContents] = []
  /// The time has not changed since the file was synchronised.
  var isTimeSynchronized = false

  /// How often it may have got a new key.
  var rekeys = 0

  // For directories.
  var entries: [ModelName: Int] = [:]
  var parent = ModelTree.root

  // For symbolic links.
  var target: [UInt8] = []
}

/// A name in a directory, and its inode.
struct ModelPlace {
  let directory: Int
  let name: ModelName
  let inode: Int
}

/// The expected state of the whole mounted tree. It is a value, so that the state before a call can be kept.
struct ModelTree {
  static let root = 0

  private(set) var inodes: [Int: ModelInode]
  private var next = 1
  /// Files whose last name is gone, while they are open.
  private(set) var unlinked: Set<Int> = []
  /// The explicit classes of files that have left a name since the store was mounted, and when that was.
  private var vacated: [[UInt8]: (fileClass: ProtectionClass, time: Int64)] = [:]
  /// The time of the current call.
  var now = ModelTime.unknown

  init(rootClass: ProtectionClass) {
    inodes = [Self.root: ModelInode(kind: .directory, mode: 0o755, time: .unknown, fileClass: rootClass)]
    inodes[Self.root]!.isExplicit = true
  }

  subscript(inode: Int) -> ModelInode {
    get { inodes[inode]! }
    set { inodes[inode] = newValue }
  }

  func entry(_ name: ModelName, in directory: Int) -> Int? { self[directory].entries[name] }

  /// Every name in the tree, in an order that is the same in each run.
  var places: [ModelPlace] {
    var places: [ModelPlace] = []
    for (directory, inode) in inodes where inode.kind == .directory {
      for (name, child) in inode.entries { places.append(ModelPlace(directory: directory, name: name, inode: child)) }
    }
    return places.sorted {
      $0.directory != $1.directory ? $0.directory < $1.directory : $0.name.lexicographicallyPrecedes($1.name)
    }
  }

  /// The explicit class of the file that was the last to leave a name. It is known for a minute, and forgotten after
  /// two; `nil` in between.
  func vacated(_ name: ModelName, in directory: Int) -> ProtectionClass?? {
    guard let former = vacated[Self.key(name, directory)] else { return .some(nil) }
    let seconds = (MonotonicClock.nanoseconds - former.time) / 1_000_000_000
    return seconds < 50 ? .some(former.fileClass) : seconds > 130 ? .some(nil) : nil
  }

  private static func key(_ name: ModelName, _ directory: Int) -> [UInt8] { Array("\(directory)/".utf8) + name }

  var directories: [Int] { inodes.filter { $0.value.kind == .directory }.keys.sorted() }

  /// The path of a directory below the mount point: its names, each after a slash.
  func path(of directory: Int) -> [UInt8] {
    guard directory != Self.root else { return [] }
    let parent = self[directory].parent
    let name = self[parent].entries.first { $0.value == directory }!.key
    return path(of: parent) + [UInt8(ascii: "/")] + name
  }

  /// Whether a directory is another, or below it.
  func isDirectory(_ directory: Int, within other: Int) -> Bool {
    var current = directory
    while current != other {
      if current == Self.root { return false }
      current = self[current].parent
    }
    return true
  }

  func depth(of directory: Int) -> Int { directory == Self.root ? 0 : 1 + depth(of: self[directory].parent) }

  /// The number of links that stat(2) returns.
  func linkCount(of inode: Int) -> Int {
    let node = self[inode]
    guard node.kind == .directory else { return node.links }
    return 2 + node.entries.values.count { self[$0].kind == .directory }
  }
}

// Changes. Each is the effect of one successful call.
extension ModelTree {
  mutating func make(
    _ kind: ModelInode.Kind, _ name: ModelName, in directory: Int, mode: UInt32, keeping kept: ProtectionClass? = nil
  ) -> Int {
    let inode = next
    next += 1
    var node = ModelInode(kind: kind, mode: mode, time: now)
    if kind != .symbolicLink { node.fileClass = kept ?? self[directory].fileClass }
    node.isExplicit = kept != nil
    node.parent = directory
    inodes[inode] = node
    enter(inode, as: name, in: directory)
    return inode
  }

  mutating func link(_ inode: Int, as name: ModelName, in directory: Int) {
    self[inode].links += 1
    enter(inode, as: name, in: directory)
  }

  mutating func remove(_ name: ModelName, in directory: Int) {
    let inode = self[directory].entries.removeValue(forKey: name)!
    vacate(name, in: directory, inode)
    self[directory].time = now
    self[inode].links -= 1
    guard self[inode].links == 0 else { return }
    if self[inode].kind == .file { unlinked.insert(inode) } else { inodes[inode] = nil }
  }

  mutating func rename(_ name: ModelName, in directory: Int, to newName: ModelName, in newDirectory: Int) {
    let inode = self[directory].entries[name]!
    if let replaced = entry(newName, in: newDirectory) {
      if replaced == inode { return }
      remove(newName, in: newDirectory)
    }
    vacate(name, in: directory, inode)
    self[directory].entries[name] = nil
    self[directory].time = now
    enter(inode, as: newName, in: newDirectory)
  }

  private mutating func vacate(_ name: ModelName, in directory: Int, _ inode: Int) {
    let fileClass = ModelContract.explicitClass(of: self[inode])
    vacated[Self.key(name, directory)] = fileClass.map { ($0, MonotonicClock.nanoseconds) }
  }

  /// Forgets what has left which name, as the daemon does when it ends.
  mutating func forgetVacated() { vacated = [:] }

  mutating func exchange(_ name: ModelName, in directory: Int, with other: ModelName, in otherDirectory: Int) {
    let (first, second) = (self[directory].entries[name]!, self[otherDirectory].entries[other]!)
    if first == second { return }
    enter(second, as: name, in: directory)
    enter(first, as: other, in: otherDirectory)
  }

  private mutating func enter(_ inode: Int, as name: ModelName, in directory: Int) {
    self[directory].entries[name] = inode
    self[directory].time = now
    if self[inode].kind == .directory { self[inode].parent = directory }
  }

  mutating func forgetNameless(exceptFor open: Set<Int>) {
    for inode in unlinked.subtracting(open) {
      unlinked.remove(inode)
      inodes[inode] = nil
    }
  }

  /// Changes the contents of a file, and keeps the previous contents for a crash.
  mutating func change(_ inode: Int, time: ModelTime? = nil, _ body: (inout ModelContents) -> Void) {
    self[inode].earlier.append(self[inode].contents)
    body(&inodes[inode]!.contents)
    self[inode].time = time ?? now
    self[inode].isTimeSynchronized = false
  }

  /// Sets the class of a file or directory explicitly; it may be the present one.
  mutating func choose(_ fileClass: ProtectionClass, for inode: Int, isRewrapped: Bool = false) {
    let node = self[inode]
    if node.kind == .file, !isRewrapped, ModelContract.isRaise(from: node.fileClass!, to: fileClass) { rekey(inode) }
    self[inode].fileClass = fileClass
    self[inode].isExplicit = true
  }

  /// Gives a file a new key.
  mutating func rekey(_ inode: Int) { if self[inode].contents.count > 0 { self[inode].rekeys += 1 } }

  /// The time may have moved.
  mutating func touch(_ inode: Int) {
    self[inode].time = self[inode].time.orLater(now)
    self[inode].isTimeSynchronized = false
  }
}
