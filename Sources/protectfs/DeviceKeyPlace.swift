import KeyManagement
import ProtectfsClient

/// The usual place of device keys, where that is in memory: on a live system, or one that keeps its disk as it was.
enum DeviceKeyPlace {
  /// What to do about it.
  static let remedy =
    "copy it to a disk that stays, under its name, and mount with --device-key FILE (logins: -o device_key=FILE)"

  /// What is so there, unless it is on something that stays.
  static func problem(_ directory: String = DeviceKey.defaultDirectory().description) -> String? {
    guard MountedFileSystem.isInMemory(directory) else { return nil }
    return "\(directory) is in memory: the device key in it is gone at the next boot, and then only the recovery key "
      + "opens a store"
  }

  /// Warns of it, for a store that stays itself.
  static func warn(of backing: String) {
    guard let problem = problem(), !MountedFileSystem.isInMemory(backing) else { return }
    CommandFailure.report("\(problem); \(remedy)")
  }
}
