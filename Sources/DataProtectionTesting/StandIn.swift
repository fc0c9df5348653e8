import CProtectfsTesting
import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

/// A directory of an ordinary file system, with the classes and states of a mount.
///
/// The process's own calls of the C library that concern it are answered as a mount answers them (`StandInCalls`), so
/// that Foundation, this package and the app need not know of it. For other programs, and for calls that the C library
/// makes by itself, the files of a locked class have no permissions meanwhile.
final class StandIn: StandInMount {
  /// What a file had when it was locked.
  struct Withheld {
    var mode: UInt32
    let record: Record
  }

  struct State {
    var lockState = LockState.unlocked
    var withheld: [StandInItem.Identity: Withheld] = [:]
  }

  let mount: MountedFileSystem
  let root: PathName
  /// The number of the device that its files seem to be on. No driver has the major number.
  let device: (major: UInt32, minor: UInt32)
  let state = RankedMutex(.standInState, State())

  private static let count = Atomic<UInt32>(0)

  /// - Throws: `ENOTSUP` if the file system of the directory has no extended attributes.
  init(_ path: String) throws(Errno) {
    root = try PathName(path).canonical()
    device = (4095, Self.count.add(1, ordering: .relaxed).newValue)
    mount = MountedFileSystem(standIn: root.description, device: "\(device.major):\(device.minor)")
    try Self.undisturbed { () throws(Errno) in
      try store(Record(protectionClass: .standard, isExplicit: false), in: StandInItem(root))
    }
    StandInMounts.add(self)
    StandInCalls.begin()
  }

  func remove() {
    StandInCalls.end()
    StandInMounts.remove(self)
  }

  /// Whether Foundation's calls in this process are answered.
  var isInPlace: Bool {
    let before = protectfs_testing_answered()
    return FileManager.default.fileExists(atPath: root.description) && protectfs_testing_answered() > before
  }

  /// Runs `body`, whose calls are not answered but made.
  static func undisturbed<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    protectfs_testing_enter()
    defer { protectfs_testing_leave() }
    return try body()
  }

  // MARK: States

  var lockState: LockState { state.withLock { $0.lockState } }

  /// Locks or unlocks.
  func change(to lockState: LockState) throws(Errno) {
    try Self.undisturbed { () throws(Errno) in
      // What is opened or created meanwhile is refused already, or still.
      if lockState == .locked { state.withLock { $0.lockState = lockState } }
      try updateItems(in: StandInItem(root), for: lockState)
      state.withLock { $0.lockState = lockState }
    }
  }

  /// Updates all files in a directory, also in one that its owner may not search.
  private func updateItems(in directory: StandInItem, for lockState: LockState) throws(Errno) {
    try directory.withOwnerPermissions(leaving: directory.status.permissions) { () throws(Errno) in
      for name in try directory.names() {
        do throws(Errno) {
          let item = try StandInItem(name, in: directory)
          if item.isDirectory { try updateItems(in: item, for: lockState) } else { try update(item, for: lockState) }
        } catch {
          // It was removed meanwhile.
          if error != .noSuchFileOrDirectory { throw error }
        }
      }
    }
  }

  /// Takes a file's permissions, or gives it those that it would have now, as its class demands in a state.
  func update(_ item: StandInItem, for lockState: LockState) throws(Errno) {
    guard item.isRegular, let record = try record(of: item) else { return }
    let withheld = withheld(item)
    let isOpen = ProtectionPolicy.access(for: .open, on: record.protectionClass, in: lockState) == .allowed
    if isOpen, let withheld {
      try item.setMode(withheld.mode)
      _ = state.withLock { $0.withheld.removeValue(forKey: item.identity) }
    } else if !isOpen, withheld == nil {
      try store(record, in: item)
      let taken = Withheld(mode: item.status.permissions, record: record)
      state.withLock { $0.withheld[item.identity] = taken }
      try item.setMode(0)
    }
  }

  /// What was taken from a file; `nil` if it is not locked.
  func withheld(_ item: StandInItem) -> Withheld? { state.withLock { $0.withheld[item.identity] } }

  /// - Throws: `EACCES` if the table does not permit an operation now.
  func require(_ operation: ProtectionPolicy.Operation, _ protectionClass: ProtectionClass) throws(Errno) {
    guard ProtectionPolicy.access(for: operation, on: protectionClass, in: lockState) == .allowed else {
      throw .permissionDenied
    }
  }
}
