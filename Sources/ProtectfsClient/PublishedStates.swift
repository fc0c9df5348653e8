import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The lock states that daemons publish in memory (shm_overview(7)), each in a file of its mount that the daemon has
/// locked. To read them no daemon is asked, and nothing is waited for.
package enum PublishedStates {
  /// The states of mounts, by the device numbers of their file systems. Those are missing that this user may not ask,
  /// that publish none, or whose daemons have ended, were stopped, or are not seen from here.
  package static func states(of mounts: [MountedFileSystem]) -> [String: LockState] {
    var states: [String: LockState] = [:]
    let user = Process.identity.user
    for owner in Set(mounts.map(\.owner)) where [owner, 0].contains(user) {
      for path in ControlSocket.possibleDirectories(of: owner) + [lastDirectory(of: owner)] {
        let unknown = mounts.filter { $0.owner == owner && states[$0.device] == nil }
        guard !unknown.isEmpty, let directory = try? SocketDirectory(openingCached: path, of: owner) else { continue }
        for mount in unknown { states[mount.device] = state(of: mount.device, in: directory) }
      }
    }
    return states
  }

  /// The path of the directory for the mounts of a user whose control sockets are on no tmpfs.
  package static func lastDirectory(of user: UInt32) -> String { "/dev/shm/protectfs-\(user)" }

  /// The name of the file with the state of a mount.
  package static func name(ofDevice device: String) -> String { device + suffix }

  /// What the names of such files end with.
  package static let suffix = ".state"

  /// The first byte stands for the state; the number of the process follows.
  package static func content(_ state: LockState, process: Int32) -> [UInt8] {
    [byte(for: state)] + Array(" \(process)\n".utf8)
  }

  /// The initial of its name.
  package static func byte(for state: LockState) -> UInt8 { state.rawValue.utf8.first! }

  private static func state(of device: String, in directory: borrowing SocketDirectory) -> LockState? {
    guard let file = try? directory.openFile(name(ofDevice: device)), file.isLockedByOthers,
      let content = try? file.readAll(limit: 64), let first = content.first
    else { return nil }
    // Nobody can use the files of a process that was stopped, or that was killed and cannot end, whatever it has
    // published.
    guard let process = Int32(String(decoding: content.dropFirst(2).dropLast(), as: UTF8.self)),
      Process.isRunning(process)
    else { return nil }
    return LockState.allCases.first { byte(for: $0) == first }
  }
}
