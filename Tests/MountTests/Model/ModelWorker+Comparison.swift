import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Comparison of the mount with the model: one name, one directory, or the whole tree.
extension ModelWorker {
  /// stat(2) of something, by name or through a handle.
  func expectStatus() throws {
    if let handle = handles.randomElement(using: &random), chance(40) {
      var status = FileStatus()
      try attempt("fstat", show(handle), call: { status = try handle.file.status() })
      try compare(status, handle.inode, show(handle))
    } else if let place = place() {
      var status = FileStatus()
      let path = path(place)
      try attempt("stat", show(place), call: { status = try path.status() })
      try compare(status, place.inode, show(place))
    }
  }

  func expectNames() throws {
    let directory = directory()
    let path = path(of: directory)
    try attempt("readdir", show([], in: directory)) { try compareNames(path, directory) }
  }

  func expectAttributeNames() throws {
    guard let place = place() else { return }
    let path = path(place)
    try attempt("listxattr", show(place)) { try compareAttributeNames(path, place.inode) }
  }

  private func compareNames(_ path: PathName, _ directory: Int) throws {
    statistics.comparisons += 1
    let isShared = directory == ModelTree.root && !isAlone
    let found = try path.names().map { Array($0.bytes) }.filter { !isShared || $0.starts(with: prefix) }
    let expected = tree[directory].entries.keys.sorted { $0.lexicographicallyPrecedes($1) }
    guard found == expected else {
      let (extra, missing) = (Set(found).subtracting(expected), Set(expected).subtracting(found))
      throw difference(
        "names in \(show([], in: directory)): unexpected \(extra.map { show($0, in: directory) }), missing "
          + "\(missing.map { show($0, in: directory) }), \(found.count) found")
    }
  }

  private func compareAttributeNames(_ path: PathName, _ inode: Int) throws {
    statistics.comparisons += 1
    let node = tree[inode]
    let expected = node.attributes.keys + (node.isExplicit ? [ProtectionClass.attributeName] : [])
    let found = try path.extendedAttributeNames()
    guard found == expected.sorted() else { throw difference("attributes \(found) instead of \(expected.sorted())") }
  }

  private func compare(_ status: FileStatus, _ inode: Int, _ text: String) throws {
    statistics.comparisons += 1
    let node = tree[inode]
    let (type, size): (UInt32, Int?) =
      switch node.kind {
      case .file: (S_IFREG, node.contents.count)
      case .directory: (S_IFDIR, nil)
      case .symbolicLink: (S_IFLNK, node.target.count)
      }
    let links = tree.linkCount(of: inode)
    guard status.mode == type | node.mode else {
      throw difference("\(text): mode \(String(status.mode, radix: 8)), not \(String(type | node.mode, radix: 8))")
    }
    if let size, status.size != UInt64(size) { throw difference("\(text): size \(status.size), not \(size)") }
    // Other workers create and remove directories in a shared root.
    if inode == ModelTree.root, !isAlone { return }
    guard status.links == UInt32(links) else { throw difference("\(text): \(status.links) links, not \(links)") }
    try compareTime(status, inode, text)
    if let serial = node.serial, serial != status.inode {
      throw difference("\(text): inode number \(status.inode), not \(serial)")
    }
    tree[inode].serial = status.inode
  }

  /// A time that was seen stays until something is modified. A rekey moves it by a second, which shows when the kernel
  /// asks again; a rekey that failed or was deferred has moved it too.
  private func compareTime(_ status: FileStatus, _ inode: Int, _ text: String) throws {
    let time = status.modification_seconds * 1_000_000_000 + status.modification_nanoseconds
    let isKnown = (0...2 * tree[inode].rekeys).contains { tree[inode].time.contains(time - Int64($0) * 1_000_000_000) }
    guard isKnown else {
      throw difference("\(text): modified at \(time), not \(tree[inode].time.description)")
    }
    tree[inode].time = ModelTime(exactly: time)
  }

  // MARK: Everything

  /// Compares the whole tree, and open files without a name. The lock state must not change meanwhile.
  func compareEverything() throws {
    try compareDirectory(ModelTree.root, stage.volume.mountPoint)
    var compared: Set<Int> = []
    for place in tree.places {
      let path = path(place)
      if tree[place.inode].kind == .directory {
        try compareDirectory(place.inode, path)
      } else {
        try during(show(place)) {
          try compare(path.status(), place.inode, show(place))
          if compared.insert(place.inode).inserted { try compareFile(place, path) }
        }
      }
    }
    for handle in handles where tree.unlinked.contains(handle.inode) { try compareUnlinked(handle) }
  }

  /// An unexpected error is a difference.
  private func during(_ text: String, _ body: () throws -> Void) throws {
    do {
      try body()
    } catch let error as Errno {
      throw difference("\(text): \(Self.show(error))")
    } catch let error as ModelDifference {
      throw difference("\(text): \(error.text)")
    }
  }

  private func compareDirectory(_ directory: Int, _ path: PathName) throws {
    try during(show([], in: directory)) {
      try compare(path.status(), directory, "directory")
      try compareNames(path, directory)
      try compareClass(path, directory)
      for (name, value) in tree[directory].attributes.sorted(by: { $0.key < $1.key }) {
        guard try path.extendedAttribute(PathName(name)) == value else { throw difference("value of \(name)") }
      }
    }
  }

  private func compareClass(_ path: PathName, _ inode: Int) throws {
    try compareAttributeNames(path, inode)
    let found = try path.protectionClass()
    guard found == tree[inode].fileClass else {
      throw difference("class \(found.letter) instead of \(tree[inode].fileClass!.letter)")
    }
  }

  private func compareFile(_ place: ModelPlace, _ path: PathName) throws {
    let node = tree[place.inode]
    guard node.kind == .file else {
      guard try path.symbolicLinkTarget() == node.target else { throw difference("another target") }
      return
    }
    try compareClass(path, place.inode)
    let opens = Set(stage.sample.states.map { ModelContract.opens(node.fileClass!, in: $0) })
    guard opens == [true] else {
      let failure = failure { () throws(Errno) in _ = try OpenFile(path, O_RDONLY) }
      guard opens.count > 1 || failure == .permissionDenied else { throw difference("a locked file could be opened") }
      return
    }
    for (name, value) in node.attributes {
      guard try path.extendedAttribute(PathName(name)) == value else { throw difference("value of \(name)") }
    }
    try compareContents(OpenFile(path, O_RDONLY), place.inode)
  }

  private func compareUnlinked(_ handle: ModelHandle) throws {
    try during("\(show(handle)), without a name") {
      try compare(handle.file.status(), handle.inode, "open file")
      let transfers = stage.sample.states.allSatisfy {
        ModelContract.transfers(tree[handle.inode].fileClass!, in: $0)
      }
      if handle.reads, transfers { try compareContents(handle.file, handle.inode) }
    }
  }

  /// A distant hole is skipped with SEEK_DATA.
  private func compareContents(_ file: OpenFile, _ inode: Int) throws {
    statistics.comparisons += 1
    let contents = tree[inode].contents
    if contents.count <= 2 * Self.longest { return try compareContents(file, contents, 0..<contents.count) }
    var position = 0
    while position < contents.count {
      let data = try file.nextData(from: position) ?? contents.count
      if let index = contents.firstData(in: position..<data) { throw difference("a hole where data is, at \(index)") }
      guard data < contents.count else { return }
      position = try file.seek(to: data, .hole)
      try compareContents(file, contents, data..<position)
    }
  }

  private func compareContents(_ file: OpenFile, _ contents: ModelContents, _ range: Range<Int>) throws {
    var position = range.lowerBound
    while position < range.upperBound {
      let end = min(range.upperBound, position + 131_072)
      let (found, expected) = (
        try file.read(at: position, count: end - position), contents.bytes(in: position..<end)
      )
      guard found == expected else {
        let index = zip(found, expected).enumerated().first { $0.element.0 != $0.element.1 }
        throw difference(
          "contents of \(contents.count) bytes: \(found.count) of \(expected.count) read at \(position)"
            + (index.map { ", \($0.element.0) instead of \($0.element.1) at \(position + $0.offset)" } ?? ""))
      }
      position = end
    }
  }
}
