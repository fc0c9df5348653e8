import FoundationEssentials
import ProtectfsIO
import SystemPackage

/// What a move has copied, each item as it was found. The move removes that and nothing else: what others have put
/// there or changed meanwhile has no copy.
struct MovedItems: Sendable {
  private var root: ItemState?
  private var directories: [FileIdentity: [PathName: ItemState]] = [:]

  private typealias Directory = NestedDirectory<SharedDescriptor, Void>
  private typealias Descent = TreeDescent<SharedDescriptor, Void>

  /// Notes the item that is moved, before it is copied.
  mutating func begin(with status: Status) { root = ItemState(status) }

  /// Notes an item in a directory, before it is copied.
  mutating func add(_ name: PathName, _ status: Status, in directory: Status) {
    directories[directory.identity, default: [:]][name] = ItemState(status)
  }

  /// Whether all is as it was when it was copied, and nothing has come.
  func areUnchanged(_ name: PathName, in parent: borrowing Descriptor) throws(Errno) -> Bool {
    do throws(Errno) {
      let item = SharedDescriptor(try parent.open(name, [.path, .noFollow]))
      guard let root, try root == ItemState(item.descriptor.status()) else { return false }
      guard root.isDirectory else { return true }
      var descent = Descent()
      guard try enter(Directory(name, item, (), in: nil), item, &descent) else { return false }
      while let directory = descent.directory {
        guard let name = descent.nextName() else {
          descent.leave()
          continue
        }
        let above = try descent.item()
        let item = SharedDescriptor(try above.descriptor.open(name, [.path, .noFollow]))
        guard let state = try state(of: name, in: above.descriptor), try state == ItemState(item.descriptor.status())
        else { return false }
        guard state.isDirectory else { continue }
        guard try enter(Directory(name, item, (), in: directory), item, &descent) else { return false }
      }
      return true
    } catch .noSuchFileOrDirectory {
      return false
    }
  }

  /// Goes down into a directory. Returns `false` if other names are in it than those that were copied.
  private func enter(
    _ directory: Directory, _ item: SharedDescriptor, _ descent: inout Descent
  ) throws(Errno) -> Bool {
    let names = try item.descriptor.names()
    let copied = directories[try item.descriptor.status().identity] ?? [:]
    guard names.count == copied.count, names.allSatisfy({ copied[$0] != nil }) else { return false }
    descent.enter(directory, item, names)
    return true
  }

  private func state(of name: PathName, in directory: borrowing Descriptor) throws(Errno) -> ItemState? {
    directories[try directory.status().identity]?[name]
  }

  /// Removes what was copied. Each item is looked at once more, as closely to its removal as the kernel permits.
  ///
  /// - Throws: `EBUSY` if something is another item now, or was written. It stays, and with it what is above it.
  func remove(_ name: PathName, in parent: borrowing Descriptor) throws(Errno) {
    guard let root else { return }
    guard root.isDirectory else { return try unlink(name, root, in: parent) }
    let item = SharedDescriptor(try parent.open(name, [.path, .directory, .noFollow]))
    guard try root.isSameItem(as: ItemState(item.descriptor.status())) else { throw .resourceBusy }
    var descent = Descent()
    try enterRemoved(Directory(name, item, (), in: nil), item, &descent)
    while let directory = descent.directory {
      guard let name = descent.nextName() else {
        descent.leave()
        guard let above = directory.parent else { continue }
        try removeDirectory(directory.name, in: above.item().descriptor)
        continue
      }
      let above = try descent.item()
      guard let state = try state(of: name, in: above.descriptor) else { throw .resourceBusy }
      guard state.isDirectory else {
        try unlink(name, state, in: above.descriptor)
        continue
      }
      let item = SharedDescriptor(try above.descriptor.open(name, [.path, .directory, .noFollow]))
      guard try state.isSameItem(as: ItemState(item.descriptor.status())) else { throw .resourceBusy }
      try enterRemoved(Directory(name, item, (), in: directory), item, &descent)
    }
    try removeDirectory(name, in: parent)
  }

  /// Removes what was copied of the item at a path.
  ///
  /// - Throws: an error that says so if something has changed since it was copied.
  func remove(_ name: PathName, in parent: borrowing Descriptor, at path: String) throws(CocoaError) {
    do throws(Errno) {
      try remove(name, in: parent)
    } catch {
      throw error == .resourceBusy ? .changedMeanwhile(path) : CocoaError(error, .writing, path: path)
    }
  }

  private func enterRemoved(
    _ directory: Directory, _ item: SharedDescriptor, _ descent: inout Descent
  ) throws(Errno) {
    let status = try item.descriptor.status()
    guard status.is_mount_root == 0 else { throw .resourceBusy }
    // Its owner may have forbidden even themselves to change it. If this fails too, the removal says so.
    if status.permissions & 0o700 != 0o700 { try? item.descriptor.setModeThroughPath(0o700) }
    descent.enter(directory, item, (directories[status.identity] ?? [:]).keys)
  }

  private func unlink(
    _ name: PathName, _ state: ItemState, in directory: borrowing Descriptor
  ) throws(Errno) {
    guard try state.isSameContent(as: ItemState(directory.status(of: name))) else { throw .resourceBusy }
    try directory.unlink(name)
  }

  /// What has come into the directory was not copied.
  private func removeDirectory(_ name: PathName, in directory: borrowing Descriptor) throws(Errno) {
    do throws(Errno) {
      try directory.removeDirectory(name)
    } catch .directoryNotEmpty {
      throw .resourceBusy
    }
  }
}

/// By what it is seen that an item has become another, or was changed.
private struct ItemState: Equatable, Sendable {
  private let identity: FileIdentity
  private let mode: UInt32
  private let size: UInt64
  private let modification: [Int64]
  private let change: [Int64]

  init(_ status: Status) {
    (identity, mode, size) = (status.identity, UInt32(status.mode), status.size)
    modification = [status.modification_seconds, Int64(status.modification_nanoseconds)]
    change = [status.change_seconds, Int64(status.change_nanoseconds)]
  }

  var isDirectory: Bool { mode & 0o170000 == InodeType.directory.rawValue }

  func isSameItem(as other: ItemState) -> Bool {
    identity == other.identity && mode & 0o170000 == other.mode & 0o170000
  }

  /// The time of change is left out: it moves when another name of the same file goes.
  func isSameContent(as other: ItemState) -> Bool {
    isSameItem(as: other) && size == other.size && modification == other.modification
  }
}
