import ProtectfsIO
import SystemPackage

/// How many of a mount's pages may be dirty. The kernel's limit for FUSE is meant for daemons that it cannot trust; root may
/// raise it (Documentation/ABI/testing/sysfs-class-bdi in the kernel's sources).
///
/// Its limit of the read-ahead, 128 KiB, stays: such requests are decrypted in the processor's cache, and the backing file
/// system reads ahead for itself. 1 MiB was slower by a fifth.
enum PageCacheLimits {
  /// The share of all memory for dirty pages, in percent, that the mount's may take. At FUSE's own 1 % programs that write
  /// are slowed down to what the kernel takes for the daemon's speed before it has measured it. A lock waits for what is
  /// dirty of its classes, so it is not all of it.
  private static let dirtyShare = 10

  /// Raises the limit for a mount. Returns whether it could.
  static func raise(for mountPoint: String) -> Bool {
    guard let device = device(of: mountPoint) else { return false }
    do throws(Errno) {
      let file = try Descriptor.open(PathName("/sys/class/bdi/\(device)/max_ratio"), [.writeOnly])
      try file.write(Array("\(dirtyShare)".utf8))
      return true
    } catch {
      return false
    }
  }

  /// The device of a mount as `MAJOR:MINOR`. Read from mountinfo: asking the mount itself would wait for its daemon, which
  /// is not serving yet.
  private static func device(of mountPoint: String) -> String? {
    guard let file = try? Descriptor.open("/proc/self/mountinfo", [.readOnly]),
      let bytes = try? file.readAll(limit: 1 << 20)
    else { return nil }
    // 36 35 98:0 /root /mount\040point options … (proc_pid_mountinfo(5)); the last one mounted there counts.
    let escaped = mountPoint.replacing("\\", with: "\\134").replacing(" ", with: "\\040")
      .replacing("\t", with: "\\011").replacing("\n", with: "\\012")
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { $0.split(separator: " ") }
    return lines.last { $0.count > 4 && $0[4] == escaped }.map { String($0[2]) }
  }
}
