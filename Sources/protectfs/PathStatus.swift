import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// `protectfs status` of one file or directory.
struct PathStatus: Encodable {
  let path: String
  let status: ProtectionStatus
  /// Whether the file's class key is in another keybag than the store's.
  private let isUnderOtherKeybag: Bool

  private enum CodingKeys: String, CodingKey {
    case path, mountPoint, isDirectory, state, key, isUsable, obstacle, returns
    case protectionClass = "class"
  }

  init(path: String) throws {
    self.path = path
    do throws(Errno) {
      status = try ProtectionStatus(ofItemAt: path)
    } catch {
      throw CommandFailure(path, error)
    }
    isUnderOtherKeybag = status.isUsable && !status.isDirectory && Self.needsOtherKeybag(path)
  }

  private static func needsOtherKeybag(_ path: String) -> Bool {
    do throws(Errno) {
      _ = try Descriptor.open(PathName(path), [.readOnly, .nonBlocking])
      return false
    } catch {
      return error == .noKey
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(path, forKey: .path)
    try container.encode(status.mount.mountPoint, forKey: .mountPoint)
    try container.encode(status.protectionClass, forKey: .protectionClass)
    try container.encode(status.isDirectory, forKey: .isDirectory)
    try container.encodeIfPresent(status.state, forKey: .state)
    try container.encodeIfPresent(status.key, forKey: .key)
    try container.encode(isUsable, forKey: .isUsable)
    try container.encodeIfPresent(isUnderOtherKeybag ? "keyMissing" : status.obstacle?.rawValue, forKey: .obstacle)
    try container.encodeIfPresent(status.returns, forKey: .returns)
  }

  private var isUsable: Bool { status.isUsable && !isUnderOtherKeybag }

  /// The report for people.
  var report: String {
    let use = status.isDirectory ? "files can be created in it" : "can be opened"
    let answer =
      switch status.obstacle {
      case nil where isUnderOtherKeybag:
        "the keybag does not have its class key; 'protectfs fsck' says what brings it back"
      case nil: "\(use) now"
      case .permissions:
        status.isDirectory
          ? "this user may not create files in it: its permissions say so, not its class"
          : "cannot be opened by this user: its permissions say so, not its class"
      case .keyRevoked:
        "its class key was erased, reset or rotated away; only a copy of it from elsewhere brings it back"
      case .classLocked:
        (status.isDirectory ? "no files can be created in it now: " : "cannot be opened now: ") + lockedReason
      }
    let kind = status.isDirectory ? "  (class of what is created in it)" : ""
    return """
      \(path.printable)
        class   \(status.protectionClass.name) (\(status.protectionClass.letter))\(kind)
        mount   \(status.mount.mountPoint.printable), \(status.state?.words ?? "state not shown to this user")
        usable  \(isUsable ? "yes" : "no"): \(answer)
      """
  }

  private var lockedReason: String {
    let state = status.state?.words ?? "locked"
    return "class \(status.protectionClass.letter) is not available while \(state); 'protectfs unlock' makes it so"
  }
}
