import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Calls that create, move and remove names.
extension ModelWorker {
  /// Whether there is room for one more name. In a small tree the same names are met often.
  private var isFull: Bool { tree.inodes.count >= (prefersContents ? 20 : 70) }

  private func exists(_ target: (directory: Int, name: ModelName)) -> Errno? {
    tree.entry(target.name, in: target.directory) == nil ? nil : .fileExists
  }

  func createFile() throws {
    guard !isFull else { return try unlink() }
    let target = target()
    let path = path(target.name, in: target.directory)
    let exists = exists(target)
    let inherited = tree[target.directory].fileClass!
    guard let former = tree.vacated(target.name, in: target.directory) else { return try unlink() }
    let left = stage.conditions.keepsReplacedClass ? former : nil
    let kept = { (state: LockState) in ModelContract.successor(of: left, inheriting: inherited, in: state) }
    var found: ProtectionClass??
    let isNode = chance(15)
    let mode: UInt32 = isNode ? 0o600 : 0o644
    var inode = 0
    var file: OpenFile?
    let isMade = try attempt(
      isNode ? "mknod" : "create", show(target.name, in: target.directory),
      failing: { exists ?? (ModelContract.creates(kept($0) ?? inherited, in: $0) ? nil : .permissionDenied) },
      call: {
        if isNode {
          try path.makeNode(mode: S_IFREG | mode)
        } else {
          file = try OpenFile(path, O_RDWR | O_CREAT | O_EXCL, mode: mode)
        }
        if left != nil { found = .some(try explicitClass(of: path)) }
      },
      // Without its record, and so in its directory's class.
      halfway: left == nil ? nil : { _ = $0.make(.file, target.name, in: target.directory, mode: mode) },
      apply: {
        inode = $0.make(.file, target.name, in: target.directory, mode: mode, keeping: taken(kept, found))
      })
    if isMade, let file { addHandle(file, inode, reads: true, writes: true) }
  }

  /// The class that a file has taken over. Which one that is, the state may decide: where it changed during the call,
  /// what was found after it.
  private func taken(_ kept: (LockState) -> ProtectionClass?, _ found: ProtectionClass??) -> ProtectionClass? {
    let classes = Set(lastStates.map(kept))
    guard let found else { return classes.compactMap { $0 }.first }
    return classes.contains(found) ? found : classes.first!
  }

  private func explicitClass(of path: PathName) throws(Errno) -> ProtectionClass? {
    try path.extendedAttributeNames().contains(ProtectionClass.attributeName) ? path.protectionClass() : nil
  }

  func makeDirectory() throws {
    let target = target()
    guard !isFull, tree.depth(of: target.directory) < 5 else { return try removeDirectory() }
    let path = path(target.name, in: target.directory)
    let exists = exists(target)
    try attempt(
      "mkdir", show(target.name, in: target.directory), failing: { _ in exists },
      call: { try path.makeDirectory(mode: 0o755) },
      apply: { _ = $0.make(.directory, target.name, in: target.directory, mode: 0o755) })
  }

  func makeSymbolicLink() throws {
    guard !isFull else { return try unlink() }
    let target = target()
    let path = path(target.name, in: target.directory)
    let exists = exists(target)
    let count = [1, 3, 15, 16, 50, 255, 256, 1000, 3000].randomElement(using: &random)!
    let text = (0..<count).map { _ in UInt8.random(in: 1...255, using: &random) }
    try attempt(
      "symlink", "\(show(target.name, in: target.directory)), \(count) bytes", failing: { _ in exists },
      call: { try path.makeSymbolicLink(to: PathName(bytes: text)) },
      apply: { tree in
        let inode = tree.make(.symbolicLink, target.name, in: target.directory, mode: 0o777)
        tree[inode].target = text
      })
  }

  func readSymbolicLink() throws {
    guard let place = place([.symbolicLink]) else { return }
    let expected = tree[place.inode].target
    try attempt("readlink", show(place)) {
      guard try path(place).symbolicLinkTarget() == expected else { throw difference("another target") }
    }
    statistics.comparisons += 1
  }

  func link() throws {
    guard let place = place() else { return }
    let target = target()
    let (from, to) = (path(place), path(target.name, in: target.directory))
    let expected: Errno? = exists(target) ?? (tree[place.inode].kind == .directory ? .notPermitted : nil)
    try attempt(
      "link", "\(show(place)) as \(show(target.name, in: target.directory))", failing: { _ in expected },
      call: { try from.link(as: to) }, apply: { $0.link(place.inode, as: target.name, in: target.directory) })
  }

  func unlink() throws {
    guard let place = place() else { return }
    let path = path(place)
    let inode = tree[place.inode]
    let directoryClass = tree[place.directory].fileClass!
    try attempt(
      "unlink", show(place),
      failing: { state in
        if inode.kind == .directory { return .isDirectory }
        guard inode.kind == .file else { return nil }
        let classes = [inode.fileClass!, directoryClass]
        return classes.allSatisfy { ModelContract.creates($0, in: state) } ? nil : .permissionDenied
      }, call: { try path.unlink() },
      apply: { $0.remove(place.name, in: place.directory) })
    forgetClosed()
  }

  func removeDirectory() throws {
    guard let place = place(chance(90) ? [.directory] : [.file, .symbolicLink]) else { return }
    let path = path(place)
    let node = tree[place.inode]
    let expected: Errno? =
      node.kind != .directory ? .notDirectory : node.entries.isEmpty ? nil : .directoryNotEmpty
    try attempt(
      "rmdir", show(place), failing: { _ in expected }, call: { try path.removeDirectory() },
      apply: { $0.remove(place.name, in: place.directory) })
  }

  func rename() throws {
    guard let place = place() else { return }
    let target = chance(60) ? target() : self.place().map { ($0.directory, $0.name) } ?? target()
    guard tree.depth(of: target.0) + height(of: place.inode) < 7 else { return }
    let flags: RenameFlags = [[], [], [], .noReplace, .exchange].randomElement(using: &random)!
    let (from, to) = (path(place), path(target.1, in: target.0))
    let mode = flags == .exchange ? "exchange" : flags == .noReplace ? "rename without replacing" : "rename"
    let other = tree.entry(target.1, in: target.0)
    let expected = renameFailure(place, target, flags)
    let inode = tree[place.inode]
    guard let left = tree.vacated(target.1, in: target.0) else { return }
    let isMoved = flags != .exchange && expected == nil && other != place.inode && inode.kind == .file
    let replaced = other.map { tree[$0] }
    func kept(_ state: LockState) -> ProtectionClass? {
      guard isMoved, stage.conditions.keepsReplacedClass, !inode.isExplicit else { return nil }
      if let replaced { return ModelContract.explicitClass(of: replaced) }
      return ModelContract.successor(of: left, inheriting: inode.fileClass!, in: state)
    }
    let mayKeep = LockState.allCases.contains { kept($0) != nil }
    var found: ProtectionClass??
    func keepClass(_ tree: inout ModelTree) {
      if let kept = taken(kept, found) { tree.choose(kept, for: place.inode) }
    }
    // Neither an empty file nor, where the class could not be removed, one that can be new replaces a file that has
    // contents and is locked. Of a file that is open, and of an empty one that was a moment ago, the kernel may have
    // more than the store.
    let losesContents = isMoved && replaced.map { $0.contents.count > 0 } == true
    let emptiesFile = losesContents && inode.contents.count == 0
    let mayBeEmpty = losesContents && replaced?.isExplicit == false && handles.contains { $0.inode == other }
    let isSettled = inode.fileClass == .complete && !handles.contains { [place.inode, other].contains($0.inode) }
    try attempt(
      mode, "\(show(place)) to \(show(target.1, in: target.0))\(other.map { " (inode \($0))" } ?? "")",
      failing: { state in
        if let expected { return expected }
        if losesContents, let former = replaced?.fileClass, !ModelContract.opens(former, in: state) {
          let isNew =
            !inode.isExplicit && !ModelContract.creates(former, in: state)
            && ModelContract.creates(inode.fileClass!, in: state)
          if isNew || emptiesFile { return .permissionDenied }
        }
        guard let kept = kept(state) else { return nil }
        // Within a class no key is wrapped, so the file's key is not needed.
        let isWrapped = kept != inode.fileClass
        let isAllowed =
          ModelContract.creates(kept, in: state) && (!isWrapped || ModelContract.opens(inode.fileClass!, in: state))
        return isAllowed ? nil : .permissionDenied
      }, mayPass: emptiesFile && !isSettled || mayBeEmpty,
      call: {
        try from.rename(to: to, flags: flags)
        if mayKeep { found = .some(try explicitClass(of: to)) }
      }, halfway: mayKeep ? keepClass : nil,
      apply: { tree in
        // The name was left by a file of the class that it had before.
        defer { keepClass(&tree) }
        if flags == .exchange {
          tree.exchange(place.name, in: place.directory, with: target.1, in: target.0)
        } else {
          tree.rename(place.name, in: place.directory, to: target.1, in: target.0)
        }
      })
    forgetClosed()
  }

  private func height(of inode: Int) -> Int {
    guard tree[inode].kind == .directory else { return 0 }
    return 1 + (tree[inode].entries.values.map { height(of: $0) }.max() ?? 0)
  }

  /// The error of rename(2) due to the names, in the order in which Linux checks.
  private func renameFailure(
    _ place: ModelPlace, _ target: (directory: Int, name: ModelName), _ flags: RenameFlags
  ) -> Errno? {
    let other = tree.entry(target.name, in: target.directory)
    if flags == .noReplace, other != nil { return .fileExists }
    if flags == .exchange, other == nil { return .noSuchFileOrDirectory }
    let isDirectory = tree[place.inode].kind == .directory
    if isDirectory, tree.isDirectory(target.directory, within: place.inode) { return .invalidArgument }
    guard let other else { return nil }
    let otherIsDirectory = tree[other].kind == .directory
    if otherIsDirectory, tree.isDirectory(place.directory, within: other) {
      return flags == .exchange ? .invalidArgument : .directoryNotEmpty
    }
    if other == place.inode || flags == .exchange { return nil }
    if isDirectory != otherIsDirectory { return isDirectory ? .notDirectory : .isDirectory }
    return otherIsDirectory && !tree[other].entries.isEmpty ? .directoryNotEmpty : nil
  }
}
