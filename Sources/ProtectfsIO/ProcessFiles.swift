import CProtectfsIO
import SystemPackage

// What processes hold of a file system, according to proc(5). None of this sends a request to the file system itself.
extension Process {
  /// All visible processes.
  package static var all: [Int32] {
    let names = try? PathName("/proc").names(limit: 1 << 22)
    return (names ?? []).compactMap { Int32($0.description) }
  }

  /// Identifies the mount namespace of a process; `nil` if it is hidden.
  package static func mountNamespace(of process: Int32) -> String? {
    guard let root = try? Descriptor.open("/", [.readOnly, .directory]),
      let target = try? root.target(ofSymbolicLink: PathName("/proc/\(process)/ns/mnt"))
    else { return nil }
    return String(decoding: target, as: UTF8.self)
  }

  /// Whether a process has an open file, its working directory or a mapping in the file system with a device number,
  /// written as `MAJOR:MINOR`; `false` if that is hidden.
  package static func uses(device: String, _ process: Int32) -> Bool {
    let directory = "/proc/\(process)"
    let numbers = try? PathName("\(directory)/fd").names(limit: 1 << 22)
    let places = ["cwd", "root"] + (numbers ?? []).map { "fd/\($0)" }
    return places.contains { Self.device(of: "\(directory)/\($0)") == device } || maps(device: device, directory)
  }

  /// The number of the file system that a path leads to, as `MAJOR:MINOR`. It is asked for nothing.
  package static func device(of path: String) -> String? {
    var (major, minor): (UInt32, UInt32) = (0, 0)
    guard unsafe linux_device_of(path, &major, &minor) == 0 else { return nil }
    return "\(major):\(minor)"
  }

  private static func maps(device: String, _ directory: String) -> Bool {
    let bytes = (try? Descriptor.open(PathName("\(directory)/maps"), [.readOnly]).readToEnd()) ?? []
    // ADDRESSES PERMISSIONS OFFSET MAJOR:MINOR INODE PATH, with the device in hexadecimal (proc_pid_maps(5)).
    let numbers = device.split(separator: ":").compactMap { UInt32($0) }
    return bytes.split(separator: UInt8(ascii: "\n")).contains { line in
      let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 4)
      guard fields.count > 3 else { return false }
      let found = String(decoding: fields[3], as: UTF8.self).split(separator: ":").compactMap { UInt32($0, radix: 16) }
      return found == numbers
    }
  }
}
