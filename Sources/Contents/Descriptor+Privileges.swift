import ProtectfsIO
import SystemPackage

extension Descriptor {
  private static let capabilities: PathName = "security.capability"

  /// Runs `body`, which writes an open file without changing it for any user, and restores the set-ID bits and file
  /// capabilities that the kernel removes (`file_remove_privs` in fs/inode.c), also if `body` fails. The caller makes
  /// sure that no one else changes them meanwhile.
  func keepingPrivileges(_ body: () throws(Errno) -> Void) throws(Errno) {
    let before = try status()
    let capabilities = try fileCapabilities()
    do throws(Errno) {
      try body()
    } catch {
      try? restore(before, capabilities)
      throw error
    }
    try restore(before, capabilities)
  }

  private func restore(_ before: Status, _ capabilities: [UInt8]?) throws(Errno) {
    if before.permissions & 0o6000 != 0 {
      let now = try status()
      let isSame = (now.user, now.group) == (before.user, before.group)
      let isTaken = now.permissions | 0o6000 == before.permissions | 0o6000 && now.permissions != before.permissions
      if isSame, isTaken { try setMode(before.permissions) }
    }
    if let capabilities, try fileCapabilities() != capabilities {
      try setAttribute(Self.capabilities, to: capabilities)
    }
  }

  private func fileCapabilities() throws(Errno) -> [UInt8]? {
    do throws(Errno) {
      return try attribute(Self.capabilities)
    } catch {
      guard [.noData, .notSupportedOnSocket].contains(error) else { throw error }
      return nil
    }
  }
}
