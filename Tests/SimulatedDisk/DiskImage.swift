import ProtectfsIO

/// What is on a disk: files, directories and symbolic links, by their inode numbers.
package struct DiskImage: Hashable, Sendable {
  struct Inode: Hashable, Sendable {
    /// The type and the permissions.
    var mode: UInt32
    var user: UInt32 = 0
    var group: UInt32 = 0
    var size: UInt64 = 0
    /// Contents, by page; a page that is missing is a hole. What lies behind the size is not seen.
    var pages: [UInt64: [UInt8]] = [:]
    var attributes: [PathName: [UInt8]] = [:]
    /// Of a directory, the inodes by their names.
    var entries: [PathName: Int] = [:]
    /// Of a symbolic link.
    var target: [UInt8] = []
    var device: UInt64 = 0
    /// Of the modification time.
    var seconds: Int64 = 1_000_000_000
    var nanoseconds: UInt32 = 0

    var type: InodeType? { InodeType(rawValue: mode & 0o170000) }
  }

  /// The inode of the topmost directory.
  static let root = 2
  static let pageSize: UInt64 = 4096

  private(set) var inodes = [root: Inode(mode: InodeType.directory.rawValue | 0o700)]

  package init() {}

  subscript(_ number: Int) -> Inode { inodes[number]! }

  /// A new inode, which has no name yet. Nobody sees it before it has one, so it counts as durable.
  mutating func add(_ inode: Inode, as number: Int) { inodes[number] = inode }

  /// The number for the next inode. None is used twice.
  var nextNumber: Int { (inodes.keys.max() ?? Self.root) + 1 }

  /// How many names an inode has.
  func links(to number: Int) -> Int {
    if inodes[number]?.type == .directory { return 2 }
    return inodes.values.reduce(0) { count, inode in count + inode.entries.values.count { $0 == number } }
  }

  /// The directories in which an inode has names, with these.
  func parents(of number: Int) -> [(directory: Int, name: PathName)] {
    inodes.flatMap { directory, inode in
      inode.entries.filter { $0.value == number }.map { (directory, $0.key) }
    }
  }

  /// Drops the pages behind the ends of files. Who lengthens one after a power cut does not find them: an extent that
  /// comes before the size counts as unwritten until both are there (ext4, XFS).
  mutating func dropUnseen() {
    for number in inodes.keys {
      let size = inodes[number]!.size
      let hasUnseen = inodes[number]!.pages.keys.contains { $0 * Self.pageSize >= size }
      if hasUnseen { inodes[number]!.pages = inodes[number]!.pages.filter { $0.key * Self.pageSize < size } }
    }
  }

  /// Makes a change.
  mutating func make(_ change: Change) {
    switch change {
    case .data(let number, let page, let start, let bytes):
      var contents = inodes[number]!.pages[page] ?? [UInt8](repeating: 0, count: Int(Self.pageSize))
      contents.replaceSubrange(start..<start + bytes.count, with: bytes)
      inodes[number]!.pages[page] = contents
    case .hole(let number, let page): inodes[number]!.pages[page] = nil
    case .size(let number, let size, let clears): inodes[number]!.resize(to: size, clears: clears)
    case .attribute(let number, let name, let value): inodes[number]!.attributes[name] = value
    case .mode(let number, let mode): inodes[number]!.mode = mode
    case .owner(let number, let user, let group): (inodes[number]!.user, inodes[number]!.group) = (user, group)
    case .time(let number, let seconds, let nanoseconds):
      (inodes[number]!.seconds, inodes[number]!.nanoseconds) = (seconds, nanoseconds)
    case .entry(let directory, let name, let number): inodes[directory]!.entries[name] = number
    case .move(let from, let to, let number, let exchanged):
      inodes[from.directory]!.entries[from.name] = exchanged
      inodes[to.directory]!.entries[to.name] = number
    }
  }
}

extension DiskImage.Inode {
  /// Cuts the contents off, or adds a hole to them.
  fileprivate mutating func resize(to size: UInt64, clears: Bool) {
    let end = size / DiskImage.pageSize
    if size < self.size {
      pages = pages.filter { $0.key < end || $0.key == end && size % DiskImage.pageSize > 0 }
      let kept = Int(size % DiskImage.pageSize)
      if clears, let page = pages[end] { pages[end] = page[..<kept] + [UInt8](repeating: 0, count: page.count - kept) }
    }
    self.size = size
  }
}

/// A change of which a power cut leaves all or nothing.
enum Change: Hashable, Sendable {
  /// Within a page.
  case data(Int, page: UInt64, start: Int, [UInt8])
  case hole(Int, page: UInt64)
  /// Clears the rest of the last page, or not.
  case size(Int, UInt64, clears: Bool = false)
  case attribute(Int, PathName, [UInt8]?)
  case mode(Int, UInt32)
  case owner(Int, user: UInt32, group: UInt32)
  case time(Int, seconds: Int64, nanoseconds: UInt32)
  case entry(Int, PathName, Int?)
  /// A rename, of an inode, and perhaps of another one in the other direction.
  case move(Place, Place, Int, exchanged: Int?)

  /// A name in a directory.
  struct Place: Hashable, Sendable {
    let directory: Int
    let name: PathName
  }

  /// Whether it is written in place, beside a journal.
  var isData: Bool { if case .data = self { true } else { false } }

  /// Whether a journal has it at once: all but contents, and sizes and holes, which may come to it when contents are
  /// written back, though not before what was there when they were made (ext4's `i_disksize`, XFS's `xfs_setfilesize`).
  var isJournaled: Bool {
    switch self {
    case .data, .hole, .size: false
    default: true
    }
  }

  /// Whether fsync(2) of an inode makes it durable, or fdatasync(2), which leaves out what is not needed to read the
  /// contents (fsync(2), POSIX.1-2024). That of a directory is about its names, and that of a file is about none.
  func isFlushed(with inode: Int, dataOnly: Bool) -> Bool {
    switch self {
    case .data(inode, _, _, _), .hole(inode, _), .size(inode, _, _), .entry(inode, _, _): true
    case .attribute(inode, _, _), .mode(inode, _), .owner(inode, _, _), .time(inode, _, _): !dataOnly
    case .move(let from, let to, _, _): from.directory == inode || to.directory == inode
    default: false
    }
  }
}
