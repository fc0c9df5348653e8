import LinuxIO
import SystemPackage

/// How far the kernel reads ahead on a mount. FUSE's own limit is 128 KiB, an eighth of what one request can carry; root
/// may raise it (Documentation/ABI/testing/sysfs-class-bdi in the kernel's sources).
enum ReadAhead {
  /// Raises the read-ahead of a mount to the size of a request. Returns whether it could.
  static func raise(for mountPoint: String, kibibytes: Int) -> Bool {
    guard let device = device(of: mountPoint) else { return false }
    do throws(Errno) {
      let file = try Descriptor.open(PathName("/sys/class/bdi/\(device)/read_ahead_kb"), [.writeOnly])
      try file.write(Array("\(kibibytes)".utf8))
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
