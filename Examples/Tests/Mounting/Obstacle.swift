import Foundation
import Glibc
import Testing

/// What keeps tests on real mounts from running.
public enum Obstacle {
  /// The command under test, which `PROTECTFS` names: this package does not build it.
  static let protectfs = ProcessInfo.processInfo.environment["PROTECTFS"] ?? ""

  /// Why nothing can be mounted here; `nil` where it can.
  public static let found: Comment? = {
    guard let reason = findObstacle() else { return nil }
    print("tests on mounts are skipped: \(reason)")
    return Comment(rawValue: reason)
  }()

  private static func findObstacle() -> String? {
    if geteuid() != 0 { return "they need root" }
    if !FileManager.default.isExecutableFile(atPath: protectfs) {
      return "PROTECTFS does not name the command to mount with, as in scripts/examples.sh"
    }
    if !FileManager.default.fileExists(atPath: "/dev/fuse") {
      return "there is no /dev/fuse; 'modprobe fuse' loads it"
    }
    return unsafe access("/dev/fuse", R_OK | W_OK) == 0 ? nil : "/dev/fuse may not be used"
  }
}
