import Foundation
import Glibc
import Testing

/// What keeps tests on real mounts from running.
public enum Obstacle {
  /// The command under test, which `PROTECTFS` names: this package does not build it.
  static let protectfs = ProcessInfo.processInfo.environment["PROTECTFS"] ?? "/usr/local/bin/protectfs"

  /// Why nothing can be mounted here; `nil` where it can.
  public static let found: Comment? = {
    guard let reason = findObstacle() else { return nil }
    print("tests on mounts are skipped: \(reason)")
    return Comment(rawValue: reason)
  }()

  private static func findObstacle() -> String? {
    if !FileManager.default.isExecutableFile(atPath: protectfs) {
      return "there is no \(protectfs); PROTECTFS names one"
    }
    if !FileManager.default.fileExists(atPath: "/dev/fuse") {
      return "there is no /dev/fuse; 'modprobe fuse' loads it"
    }
    return unsafe access("/dev/fuse", R_OK | W_OK) == 0 ? nil : "/dev/fuse may not be used"
  }
}
