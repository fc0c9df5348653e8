import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Copies a file, or a directory with all that is in it, together with explicit classes and encrypted fields.
///
/// The copy is made in a staging directory, and gets its name when it is complete and durable. A copy that fails, or
/// whose program is killed, is never found under that name.
struct ItemCopy {
  /// What the caller decides.
  struct Rules: Sendable {
    /// Whether the copy takes the place of the original. It then keeps an inherited class too, and owner and times as
    /// far as permitted.
    var isMove = false
    /// Whether a move keeps inherited classes too. If not, the directory of the copy passes on its own.
    var keepsInheritedClasses = true
    /// Whether an item may lose its class and its fields where the target is not on a mount.
    var allowsPlaintext = false
    /// Whether the copy may take the place of a file.
    var mayReplace = false
  }

  private let rules: Rules
  /// Whose delegate is asked about each item; `nil` if none is.
  private let manager: FileManager?

  init(_ rules: Rules = Rules(), asking manager: FileManager? = nil) {
    self.rules = rules
    self.manager = manager
  }

  /// Copies an item to a path. Returns what a move may remove then.
  @discardableResult
  func run(from source: String, to target: String) throws(CocoaError) -> MovedItems {
    let paths = CopyPaths(source: source, target: target)
    var moved = MovedItems()
    do throws(CopyFailure) {
      try attempt(paths) { () throws(CopyFailure) in
        let item = try open(paths) { () throws(Errno) in try Descriptor.open(PathName(source), [.path, .noFollow]) }
        guard shouldCopy(item.status, paths) else { return }
        if rules.isMove { moved.begin(with: item.status) }
        try stage(item, paths, &moved)
      }
    } catch {
      throw error.error
    }
    return moved
  }

  private func stage(_ item: CopiedItem, _ paths: CopyPaths, _ moved: inout MovedItems) throws(CopyFailure) {
    let isTree = item.status.type == .directory
    let (staging, step) = try paths.writing { () throws(Errno) in
      let staging = try StagingDirectory(for: paths.target)
      // The rename finds out what exists; this only spares the work.
      if !rules.mayReplace, (try? staging.parent.status(of: staging.name)) != nil { throw .fileExists }
      if isTree, try staging.parent.isInside(item.status) { throw .invalidArgument }
      return (staging, try CopyStep(rules, in: staging, for: paths.target, isTree: isTree))
    }
    var tree: CopiedDirectory?
    if isTree {
      tree = try copyTree(item, step, to: staging, paths, &moved)
    } else {
      try step.copy(item, staging.name, into: staging.directory, paths)
    }
    if rules.isMove { try requireUnchanged(moved, paths) }
    try paths.writing { () throws(Errno) in
      // The others were made durable when they were written.
      if isTree, !step.isTargetProtected { try staging.directory.synchronizeFileSystem() }
      try staging.moveItem(mayReplace: rules.mayReplace)
      // A directory that its owner may not write cannot be moved to another directory (rename(2)).
      if let tree { try tree.target.setModeThroughPath(tree.permissions) }
    }
  }

  /// - Throws: if the item is not what was copied any more. The copy, which lacks that, gets no name.
  private func requireUnchanged(_ moved: MovedItems, _ paths: CopyPaths) throws(CopyFailure) {
    let isUnchanged = try paths.reading { () throws(Errno) in
      let parent = try Descriptor.open(PathName(FileManager.parent(of: paths.source)), [.path, .directory])
      return try moved.areUnchanged(PathName(URL(fileURLWithPath: paths.source).lastPathComponent), in: parent)
    }
    if !isUnchanged { throw CopyFailure(.changedMeanwhile(paths.source)) }
  }

  // MARK: Trees

  private typealias Directory = NestedDirectory<CopiedDirectory, CopyPaths>

  private func copyTree(
    _ item: CopiedItem, _ step: CopyStep, to staging: StagingDirectory, _ paths: CopyPaths, _ moved: inout MovedItems
  ) throws(CopyFailure) -> CopiedDirectory {
    var descent = TreeDescent<CopiedDirectory, CopyPaths>()
    let root = try step.makeDirectory(staging.name, like: item, in: staging.directory, paths)
    try enter(Directory(staging.name, root, paths, in: nil, open: { (item) in item }), root, &descent)
    while let directory = descent.directory {
      let pair = try directory.label.reading { () throws(Errno) in try descent.item() }
      guard let name = descent.nextName() else {
        descent.leave()
        try directory.label.writing { () throws(Errno) in try step.finish(pair, staysWritable: pair === root) }
        continue
      }
      let paths = directory.label.appending(name)
      try attempt(paths) { () throws(CopyFailure) in
        let item = try open(paths) { () throws(Errno) in try pair.source.descriptor.open(name, [.path, .noFollow]) }
        guard shouldCopy(item.status, paths) else { return }
        if rules.isMove { moved.add(name, item.status, in: pair.status) }
        guard item.status.type == .directory else { return try step.copy(item, name, into: pair.target, paths) }
        let made = try step.makeDirectory(name, like: item, in: pair.target, paths)
        let nested = Directory(name, made, paths, in: directory) { (above) throws(Errno) in
          try above.reopen(name, like: item.status)
        }
        try enter(nested, made, &descent)
      }
    }
    return root
  }

  private func enter(
    _ directory: Directory, _ pair: CopiedDirectory, _ descent: inout TreeDescent<CopiedDirectory, CopyPaths>
  ) throws(CopyFailure) {
    let names = try directory.label.reading { () throws(Errno) in try pair.source.descriptor.names() }
    descent.enter(directory, pair, names)
  }

  private func open(
    _ paths: CopyPaths, _ body: () throws(Errno) -> Descriptor
  ) throws(CopyFailure) -> CopiedItem {
    try paths.reading { () throws(Errno) in
      let item = SharedDescriptor(try body())
      return CopiedItem(opened: item, status: try item.descriptor.status())
    }
  }

  // MARK: The delegate

  private func shouldCopy(_ status: Status, _ paths: CopyPaths) -> Bool {
    guard let manager, let delegate = manager.delegate else { return true }
    let isDirectory = status.type == .directory
    return delegate.fileManager(
      manager, shouldCopyItemAt: paths.sourceURL(isDirectory: isDirectory),
      to: paths.targetURL(isDirectory: isDirectory))
  }

  /// Runs `body`, and asks the delegate about a failure, once: whether to go on with what follows.
  private func attempt(_ paths: CopyPaths, _ body: () throws(CopyFailure) -> Void) throws(CopyFailure) {
    do throws(CopyFailure) {
      try body()
    } catch {
      guard !error.isFinal, let manager, let delegate = manager.delegate,
        delegate.fileManager(
          manager, shouldProceedAfterError: error.error, copyingItemAt: paths.sourceURL(isDirectory: false),
          to: paths.targetURL(isDirectory: false))
      else { throw error.final }
    }
  }
}

/// An item that is copied, opened without access (`O_PATH`).
struct CopiedItem {
  let opened: SharedDescriptor
  let status: Status
}

/// A directory and its copy, both opened without access, while what is in it is copied.
final class CopiedDirectory: Sendable {
  let source: SharedDescriptor
  let target: Descriptor
  let status: Status
  let lists: AccessLists
  /// Those of the copy.
  let permissions: UInt32

  init(
    source: SharedDescriptor, target: consuming Descriptor, status: Status, lists: AccessLists, permissions: UInt32
  ) {
    self.source = source
    self.target = target
    self.status = status
    self.lists = lists
    self.permissions = permissions
  }

  /// Opens a directory in this one and its copy again.
  func reopen(_ name: PathName, like status: Status) throws(Errno) -> CopiedDirectory {
    let source = SharedDescriptor(try self.source.descriptor.open(name, [.path, .directory, .noFollow]))
    guard try source.descriptor.status().isSame(as: status) else { throw .staleNFSFileHandle }
    let target = try self.target.open(name, [.path, .directory, .noFollow])
    return CopiedDirectory(
      source: source, target: target, status: status, lists: lists, permissions: permissions)
  }
}
