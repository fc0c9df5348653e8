import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// An inode that the kernel knows: which backing file it is, where that is found, and what is open of it.
///
/// A node holds no descriptor unless it is open or its directory is in use, so that a tree may be larger than the
/// descriptor limit. Its state's lock is never held across a system call.
package final class Node: Sendable {
  /// What tells a backing file from another that got its inode number later.
  package struct Identity: Equatable {
    package let inode: UInt64
    let birthSeconds: Int64
    let birthNanoseconds: UInt32
    let type: UInt32

    package init(_ status: Status) {
      inode = status.inode
      birthSeconds = status.birth_seconds
      birthNanoseconds = status.birth_nanoseconds
      type = status.mode & 0o170000
    }
  }

  /// A name in a directory under which the backing file is found.
  package struct Location {
    package let parent: Node
    package let name: PathName

    package init(parent: Node, name: PathName) {
      self.parent = parent
      self.name = name
    }
  }

  /// The modification time of a file that a rekey has moved.
  final class MovedTime: Sendable {
    let kernel: TimeChange
    let backing: TimeChange

    package init(kernel: TimeChange, backing: TimeChange) {
      self.kernel = kernel
      self.backing = backing
    }
  }

  /// What a directory's record says.
  package struct Directory {
    package let identifier: [UInt8]
    package var directoryClass: ProtectionClass
    var isExplicit: Bool
  }

  package struct State {
    var location: Location?
    /// Further names of a file with hard links.
    var aliases: [Location] = []
    package var directory: Directory?
    /// The open backing directory, for as long as the directory cache keeps it.
    var handle: SharedDescriptor?
    package var file: ProtectedFile?
    /// The backing file or directory after its last name was taken, by `O_PATH`, for a kernel that still knows it: programs
    /// may be on their way to open it, or have it as their working directory. Kept open, its inode number is nobody else's.
    var nameless: SharedDescriptor?
    /// The modification time that the kernel has, where a rekey has given the backing file another. Elsewhere, since few
    /// nodes have it, and all of them are in memory.
    var movedTime: MovedTime?
    /// Open handles of `file`.
    var handles = 0
    /// Those of them that may write.
    package var writers = 0
    // What follows is in the order in which it takes the fewest bytes.
    /// The class key in the record that told the class, where it is known.
    var cachedKeyID: ClassKeyID?
    /// The class of the contents that the kernel may have pages of; `nil` before the first open.
    package var cachedClass: ProtectionClass?
    /// The file has a record in memory only: it was empty, had none, and was opened for reading.
    var awaitsRecord = false
    /// A rekey is pending, and the queue of rekeys has the file.
    var isRekeyKnown = false
    /// How often the class was set or the file closed: who read record and length meanwhile reads them again.
    var classChanges: UInt32 = 0
    /// The directory's set-group-ID bit: new entries take its group.
    package var setsGroup = false

    /// Notes the class key of the contents that the kernel may have pages of.
    mutating func cache(_ key: (fileClass: ProtectionClass, keyID: ClassKeyID)) {
      cachedClass = key.fileClass
      cachedKeyID = key.keyID
    }

    /// What is open of the backing file or directory, other than its contents.
    var kept: SharedDescriptor? { handle ?? nameless }
  }

  package let identity: Identity
  /// Where it is among the nodes of files whose pages are dropped when the daemon was killed. Set once, before the kernel is
  /// told of the node.
  nonisolated(unsafe) var place: SharedNumbers.Place?
  let isRoot: Bool
  package let state: Mutex<State>
  /// How often the kernel was told of the node and has not forgotten it. Guarded by the inode table's shard.
  nonisolated(unsafe) var lookups: UInt64 = 0

  package init(_ status: Status, location: Location?) {
    identity = Identity(status)
    isRoot = location == nil
    var state = State()
    state.location = location
    state.setsGroup = status.mode & 0o2000 != 0
    self.state = Mutex(state)
  }

  package var isDirectory: Bool { identity.type == InodeType.directory.rawValue }
  package var isRegular: Bool { identity.type == InodeType.regular.rawValue }
  package var isSymbolicLink: Bool { identity.type == InodeType.symbolicLink.rawValue }

  /// What stands for the node outside this process: its address, so that no table is searched for it; 1 for the root, as
  /// the kernel has it (`FUSE_ROOT_ID`).
  package var number: UInt64 {
    isRoot ? 1 : unsafe UInt64(UInt(bitPattern: Unmanaged.passUnretained(self).toOpaque()))
  }

  /// Where the backing file was last seen.
  var location: Location? { state.withLock { $0.location } }

  /// The open file, if there is one.
  package var file: ProtectedFile? { state.withLock { $0.file } }

  /// Notes a name under which the file was seen.
  package func moved(to location: Location, hasOtherNames: Bool) {
    state.withLock { state in
      guard let current = state.location else { return }
      if current.parent === location.parent, current.name == location.name { return }
      if hasOtherNames {
        state.aliases.removeAll { $0.parent === location.parent && $0.name == location.name }
        state.aliases.append(current)
        if state.aliases.count > 64 { state.aliases.removeFirst() }
      } else {
        state.aliases = []
      }
      state.location = location
    }
  }

  /// Notes that a rekey has moved the backing file's modification time, of which the kernel is not told.
  func movedTime(from kernel: TimeChange, to backing: TimeChange) {
    state.withLock { state in
      let known = state.movedTime
      state.movedTime = MovedTime(kernel: known?.backing == kernel ? known!.kernel : kernel, backing: backing)
    }
  }

  /// The modification time for the backing file when the kernel tells one: another, if it is the one from before a rekey.
  package func backingTime(for told: TimeChange) -> TimeChange {
    guard let moved = state.withLock({ $0.movedTime }), moved.kernel == told else { return told }
    return moved.backing
  }
}
