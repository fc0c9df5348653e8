import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// An inode that the kernel knows: the identity of its backing file, where that file is found, and what is open of it.
///
/// A node holds no descriptor unless it is open, its directory is in use, or it was just looked up in a store that
/// another mount writes, so a tree may be larger than the descriptor limit. The lock of a node's state is never held
/// across a system call.
package final class Node: Sendable {
  /// Distinguishes a backing file from another that got the same inode number later, or has it on another layer of an
  /// overlay.
  package struct Identity: Hashable {
    package let inode: UInt64
    let device: UInt64
    let birthSeconds: Int64
    let birthNanoseconds: UInt32
    let type: UInt32

    package init(_ status: Status) {
      inode = status.inode
      device = status.device
      birthSeconds = status.birth_seconds
      birthNanoseconds = status.birth_nanoseconds
      type = status.mode & 0o170000
    }

    /// The inode and device number in one; both are small, as a rule.
    package var key: UInt64 { inode ^ (device << 32 | device >> 32) }
  }

  /// A name in a directory under which the backing file was found.
  package struct Location: Equatable {
    package let parent: Node
    package let name: PathName

    package init(parent: Node, name: PathName) {
      self.parent = parent
      self.name = name
    }

    package static func == (one: Location, other: Location) -> Bool {
      one.parent === other.parent && one.name == other.name
    }
  }

  /// The second of the modification time of a file that a rekey has moved, since its store keeps no shifted times. Of
  /// the rest of the time such a store may keep less than the kernel.
  final class MovedTime: Sendable {
    let kernel: Int64
    let seconds: Int64

    init(kernel: Int64, _ seconds: Int64) {
      self.kernel = kernel
      self.seconds = seconds
    }
  }

  /// The contents of a directory's record.
  package struct Directory {
    package let identifier: [UInt8]
    package var directoryClass: ProtectionClass
    var isExplicit: Bool
  }

  package struct State {
    var location: Location?
    /// Other names of a file with hard links.
    var aliases: [Location] = []
    package var directory: Directory?
    /// The open backing directory, or file that has lost the last name that is known, for as long as the directory
    /// cache keeps it; or a file that was just looked up (``LookedUpFiles``).
    var handle: SharedDescriptor?
    package var file: ProtectedFile?
    /// The backing file or directory after its last name was removed, opened with `O_PATH`, while the kernel still
    /// knows it: programs may be about to open it, or have it as their working directory. While it is open, its inode
    /// number is not reused. While `file` is there, that is enough.
    package internal(set) var unlinked: SharedDescriptor?
    /// A separate object: nearly no file has one, and all nodes are in memory.
    var movedTime: MovedTime?
    /// Open handles of `file`.
    var handles = 0
    /// The number of them that may write.
    package var writers = 0
    // The following fields are in the order that takes the fewest bytes.
    /// The class key in the record that `cachedClass` comes from, if it is known.
    var cachedKeyID: ClassKeyID?
    /// The class of contents that the kernel may have in its page cache; `nil` before the first open.
    package var cachedClass: ProtectionClass?
    /// The class in that record is explicit.
    var isExplicit = false
    /// The last name was removed, and `file` alone keeps the backing file.
    var isKeptByFile = false
    /// The file's record is only in memory: the file was empty, had no record, and was opened for reading.
    var awaitsRecord = false
    /// A rekey is pending, and the rekey queue contains the file.
    var isRekeyKnown = false
    /// Counts changes of the class and closes of the file. A thread that read the record and length meanwhile reads
    /// them again.
    package var classChanges: UInt32 = 0
    /// The directory's set-group-ID bit: new entries take the directory's group.
    package var setsGroup = false

    /// Stores the class key of the contents that the kernel may have in its page cache.
    mutating func cache(_ key: (fileClass: ProtectionClass, keyID: ClassKeyID, isExplicit: Bool)) {
      cachedClass = key.fileClass
      cachedKeyID = key.keyID
      isExplicit = key.isExplicit
    }

    /// Whether the file was not open, and its class did not change, since `classChanges` had a value.
    func isUnchanged(since changes: UInt32) -> Bool { file == nil && classChanges == changes }

    /// An open descriptor of the backing file or directory that does not give access to its contents.
    var kept: SharedDescriptor? { handle ?? unlinked }
  }

  package let identity: Identity
  /// Distinguishes the node from others that had its ``number``: the kernel compares it where it has an inode of that
  /// number already, and where a file handle names one (open_by_handle_at(2), NFS).
  package let generation = lastGeneration.wrappingAdd(1, ordering: .relaxed).newValue
  private static let lastGeneration = Atomic<UInt32>(0)
  /// The position in the list of files whose pages are dropped if the daemon is killed. Set once, before the kernel
  /// learns of the node.
  nonisolated(unsafe) var place: SharedNumbers.Place?
  let isRoot: Bool
  package let state: RankedMutex<State>
  /// Held while the mode, owner or capabilities of the backing file are changed, or restored after a write.
  let privileges = RankedMutex(.privileges, ())
  /// The number of times that the kernel has looked up the node and not forgotten it. Guarded by the shard of the inode
  /// table.
  nonisolated(unsafe) var lookups: UInt64 = 0

  package init(_ status: Status, location: Location?) {
    identity = Identity(status)
    isRoot = location == nil
    var state = State()
    state.location = location
    state.setsGroup = status.mode & 0o2000 != 0
    self.state = RankedMutex(.nodeState, state)
  }

  /// Whether a descriptor is closed when the kernel forgets the node.
  package var holdsDescriptor: Bool { state.withLock { $0.kept != nil } }

  package func isOnSameDevice(as other: Node) -> Bool { identity.device == other.identity.device }
  package var isDirectory: Bool { identity.type == InodeType.directory.rawValue }
  package var isRegular: Bool { identity.type == InodeType.regular.rawValue }
  package var isSymbolicLink: Bool { identity.type == InodeType.symbolicLink.rawValue }

  /// Identifies the node outside this process: its address, so that no table is searched; 1 for the root, as the kernel
  /// requires (`FUSE_ROOT_ID`).
  package var number: UInt64 {
    isRoot ? 1 : unsafe UInt64(UInt(bitPattern: Unmanaged.passUnretained(self).toOpaque()))
  }

  /// Where the backing file was last seen.
  package var location: Location? { state.withLock { $0.location } }

  /// The open file, if there is one.
  package var file: ProtectedFile? { state.withLock { $0.file } }

  /// Stores a name under which the file was found.
  package func moved(to location: Location, hasOtherNames: Bool) {
    // The last reference to a directory closes it, which is not done under the lock.
    state.removing { state -> [Location] in
      guard let current = state.location else { return [] }
      if current == location { return [] }
      state.location = location
      guard hasOtherNames else {
        defer { state.aliases = [] }
        return state.aliases + [current]
      }
      state.aliases.removeAll { $0 == location }
      state.aliases.append(current)
      return state.aliases.count > 64 ? [state.aliases.removeFirst()] : []
    }
  }

  /// Forgets a name that a file with others loses, unless no other is known. Returns whether it has.
  @discardableResult package func forget(_ location: Location) -> Bool {
    // As above.
    let forgotten: Location? = state.withLock { state in
      if let alias = state.aliases.firstIndex(of: location) { return state.aliases.remove(at: alias) }
      guard state.location == location, let other = state.aliases.popLast() else { return nil }
      return exchange(&state.location, with: other)
    }
    return forgotten != nil
  }

  /// Notes that a rekey has moved the file's modification time. The kernel keeps the one that it knows.
  func movedTime(from last: TimeShift.Time, to time: TimeShift.Time) {
    state.withLock { state in
      let known = state.movedTime
      state.movedTime = MovedTime(
        kernel: known?.seconds == last.seconds ? known!.kernel : last.seconds, time.seconds)
    }
  }

  /// The modification time that the kernel means by `sent`: the one after all rekeys if it sends one from before, or
  /// between two, perhaps of its own accord and much later. Another one is new.
  package func timeAfterRekeys(_ sent: TimeChange) -> TimeChange {
    state.withLock { state in
      guard let moved = state.movedTime else { return sent }
      let known = min(moved.kernel, moved.seconds)...max(moved.kernel, moved.seconds)
      guard case .set(let seconds, let nanoseconds) = sent, known.contains(seconds) else {
        state.movedTime = nil
        return sent
      }
      return .set(seconds: moved.seconds, nanoseconds: nanoseconds)
    }
  }

  /// Keeps the backing file that is losing its last name, or no longer.
  func keep(unlinked: SharedDescriptor?) {
    state.removing { state in
      state.isKeptByFile = unlinked != nil && state.file != nil
      return exchange(&state.unlinked, with: state.isKeptByFile ? nil : unlinked)
    }
  }
}
