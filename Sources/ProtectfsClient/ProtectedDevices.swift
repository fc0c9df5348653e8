import ProtectfsIO
import SystemPackage

/// The file systems that are protectfs mounts, by which a walk knows of each file whether it is on one.
package struct ProtectedDevices: Sendable {
  private let numbers: Set<UInt64>

  /// Those that are mounted now.
  package init() throws(Errno) {
    numbers = Set(try MountedFileSystem.listed().compactMap { Self.number($0.device) })
  }

  /// Whether a file with this status is on a mount.
  package func contains(_ status: Status) -> Bool { numbers.contains(status.device) }

  /// The number of a device that is written as `MAJOR:MINOR` (makedev(3)).
  static func number(_ text: String) -> UInt64? {
    let parts = text.split(separator: ":").compactMap { UInt64($0) }
    guard parts.count == 2 else { return nil }
    let (major, minor) = (parts[0], parts[1])
    return (major & ~0xfff) << 32 | (major & 0xfff) << 8 | (minor & ~0xff) << 12 | minor & 0xff
  }
}
