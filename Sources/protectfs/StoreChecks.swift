import FoundationEssentials
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import StoreFormat
import SystemPackage

/// What brings the stores back that this user has mounted, when a passcode is forgotten or the machine is lost.
enum StoreChecks {
  static func findings() -> [Diagnosis] {
    let mounts: [MountedFileSystem]
    do throws(CommandFailure) { mounts = try UserMounts(ofOthersToo: false).mounts } catch {
      return [.fault("mounts", error.message, "see that /proc is mounted")]
    }
    return [deviceKey].compactMap(\.self) + mounts.flatMap(findings)
  }

  private static var deviceKey: Diagnosis? {
    let directory = DeviceKey.defaultDirectory()
    if let mount = try? MountedFileSystem.containing(directory.description) {
      return .fault(
        "device key", "\(directory) is on \(mount.mountPoint.printable), and opens no store once that is unmounted",
        "move it back where no store is mounted")
    }
    let isSealed = PathName("\(directory)/device.tpm").isThere
    guard isSealed || PathName("\(directory)/device.key").isThere else { return nil }
    if let problem = DeviceKeyPlace.problem() { return .fault("device key", problem, DeviceKeyPlace.remedy) }
    if isSealed { return .good("device key", "the TPM has sealed it") }
    return .good("device key", "\(directory)/device.key, as safe as the disk it is on; recovery keys stand for it")
  }

  private static func findings(of mount: MountedFileSystem) -> [Diagnosis] {
    let place = mount.mountPoint.printable
    let record: KeybagRecord
    do {
      // Its file system may not answer.
      record = try BoundedCall.result(about: mount.backing) { () throws(Errno) in
        Result { try StoreSummary.read(mount.backing) }
      }.get()
    } catch {
      return [.fault("keybag", "\(place): \(CommandFailure(error)?.message ?? "\(error)")", "protectfs fsck")]
    }
    let recoveryKeys = record.protectors.filter { ProtectorInformation($0).kind == UnlockSecret.Kind.recoveryKey.label }
    let command = { (words: String) in "protectfs key \(words) \(mount.mountPoint.shellQuoted)" }
    guard !recoveryKeys.isEmpty else {
      return [
        .fault(
          "recovery key", "\(place) has none: a forgotten passcode or a lost device key loses everything",
          command("add --new-recovery-key"))
      ]
    }
    // One that only asks to be a host, or was removed, has keys of its own all the same.
    if let host = try? HostKey.find(for: record.storeID), record.protectors.contains(where: { $0.id == host.record.id })
    {
      return [.good("recovery key", "\(place): kept where the store was made, of which this machine is a host")]
    }
    guard let date = recoveryKeys.compactMap({ RecoveryKeyTest.date(of: $0.id) }).max() else {
      return [
        .hint("recovery key", "\(place): that of the store was never tested here", command("test --recovery-key"))
      ]
    }
    return [.good("recovery key", "\(place): tested on \(date.formatted(.iso8601.year().month().day()))")]
  }
}

/// When a recovery key was last seen to open its store: the times of files that are named after protectors.
enum RecoveryKeyTest {
  /// Below `$XDG_STATE_HOME`, by default `~/.local/state` (XDG Base Directory Specification), and `/var/lib` for root.
  private static var directory: String {
    let given = Process.environment("XDG_STATE_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
    let usual = Process.identity.user == 0 ? "/var/lib" : "\(Process.homeDirectory)/.local/state"
    return "\(given ?? usual)/protectfs/tested"
  }

  /// Notes that it opens its store now.
  static func note(_ id: [UInt8]) throws {
    try LoginSettings.makeDirectories(directory)
    try naming(directory) {
      let directory = try Descriptor.open(PathName(directory), [.readOnly, .directory])
      var file = try AtomicFile(replacing: PathName(id.hexadecimal), in: directory)
      try unsafe [UInt8]().withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes) }
    }
  }

  /// When it last did; `nil` if that was never noted.
  static func date(of id: [UInt8]) -> Date? {
    guard let status = try? Descriptor.open(PathName("\(directory)/\(id.hexadecimal)"), [.path]).status() else {
      return nil
    }
    return Date(timeIntervalSince1970: TimeInterval(status.modification_seconds))
  }
}
