import CSystemCalls
import Glibc
import ProtectfsIO
import Testing

/// All tests that need a real mount. One test runs at a time, since some measure time. `scripts/test.sh` runs suites
/// that do not in two processes in parallel.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
enum MountTests {}

/// The reason why mount tests cannot run.
enum Obstacle {
  /// Why mounting is impossible here; `nil` if it is possible.
  static let found: Comment? = {
    guard let reason = findObstacle() else { return nil }
    print("mount tests are skipped: \(reason)")
    return Comment(rawValue: reason)
  }()

  private static func findObstacle() -> String? {
    guard geteuid() == 0 else { return "they need root" }
    guard PathName("/dev/fuse").exists else { return "there is no /dev/fuse; 'modprobe fuse' loads it" }
    guard (try? OpenFile("/dev/fuse", O_RDWR)) != nil else { return "/dev/fuse cannot be opened" }
    guard PathName(Command.path).exists else {
      return "there is no \(Command.path); 'swift build' makes it, or PROTECTFS_BINARY names one"
    }
    return nil
  }
}

/// The command under test: `protectfs` beside the test bundle, or what `PROTECTFS_BINARY` names.
enum Command {
  static let path: String = {
    if let path = unsafe getenv("PROTECTFS_BINARY") { return unsafe String(cString: path) }
    return beside("protectfs")
  }()

  /// A program that was built with the tests.
  static func beside(_ name: String) -> String {
    let bundle = (try? PathName("/proc/self/exe").symbolicLinkTarget()) ?? []
    let directory = bundle.lastIndex(of: UInt8(ascii: "/")).map { bundle[..<$0] } ?? []
    return String(decoding: directory, as: UTF8.self) + "/" + name
  }

  static func run(_ arguments: [String]) throws -> Program.Result { try Program.run([path] + arguments) }
}
