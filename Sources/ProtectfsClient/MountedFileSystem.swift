import ProtectfsIO
import SystemPackage

/// A protectfs mount, as listed by the kernel in `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
///
/// To find one, its daemon is never called, so a daemon that hangs or has died is not waited for.
public struct MountedFileSystem: Sendable, Hashable {
  /// The canonical path of the mount point.
  public let mountPoint: String
  /// The backing directory, as named by the mount.
  public let backing: String
  /// The user who mounted it.
  public let owner: UInt32
  /// The number of this mount, which is unique while the mount exists.
  package let identifier: String
  /// The device number of the file system, as `MAJOR:MINOR`. Its other mounts have the same number.
  package let device: String

  /// The file system type of a protectfs mount in the kernel's list.
  public static let type = "fuse.protectfs"

  /// All protectfs mounts that the process can see, in the order in which they were mounted; none if the kernel's list
  /// cannot be read.
  public static func all() -> [MountedFileSystem] { (try? listed()) ?? [] }

  /// The mounts that a process can see, by its `mountinfo`.
  ///
  /// - Throws: the error of reading the list. It says nothing about the mounts: there may be no descriptor left.
  package static func listed(in path: String = "/proc/self/mountinfo") throws(Errno) -> [MountedFileSystem] {
    listed(try read(path))
  }

  /// The mounts in the content of a `mountinfo`, and what stands in for mounts in this process.
  package static func listed(_ content: [UInt8]) -> [MountedFileSystem] {
    content.split(separator: UInt8(ascii: "\n")).compactMap { MountedFileSystem(line: $0) } + StandInMounts.mounts
  }

  /// The mount at a mount point: the last one there; `nil` where there is none.
  package static func at(_ mountPoint: String) throws(Errno) -> MountedFileSystem? {
    try listed().last { $0.mountPoint == mountPoint }
  }

  /// The mount points below a path, whatever is mounted there.
  package static func mountPoints(below path: String) -> [String] {
    let lines = ((try? read("/proc/self/mountinfo")) ?? []).split(separator: UInt8(ascii: "\n"))
    return lines.compactMap { line in
      let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 5)
      return fields.count > 4 ? unescaped(fields[4]) : nil
    }.filter { $0.hasPrefix(path + "/") }
  }

  /// The mount that contains a file or directory; `nil` if it is not a protectfs mount.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/notMounted`` if the path does not exist,
  ///   ``ControlError/Code-swift.enum/notPermitted`` if the user may not access it.
  public static func containing(_ path: String) throws(ControlError) -> MountedFileSystem? {
    do throws(Errno) {
      return try find(containing: path)
    } catch {
      throw ControlError(error == .permissionDenied ? .notPermitted : .notMounted, "\(path): \(error)")
    }
  }

  /// The mount that contains a file or directory, with the error of opening the path or of reading the kernel's list.
  package static func find(containing path: String) throws(Errno) -> MountedFileSystem? {
    // O_PATH stops at the mount point and sends no request to the file system that is mounted there.
    try find(containing: Descriptor.open(PathName(path), [.path]))
  }

  /// The mount that contains an open file, which may be a symbolic link.
  package static func find(containing file: borrowing Descriptor) throws(Errno) -> MountedFileSystem? {
    guard let identifier = try identifier(ofMountOf: file) else { return nil }
    return try listed().first { $0.identifier == identifier }
  }

  /// The number of the mount that an open file is on, whatever is mounted there.
  package static func identifier(ofMountOf file: borrowing Descriptor) throws(Errno) -> String? {
    if let standIn = try StandInMounts.containing(PathName(descriptor: file)) { return standIn.mount.identifier }
    let information = try read("/proc/self/fdinfo/\(file.rawValue)")
    let label = Array("mnt_id:".utf8)
    let line = information.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: label) }
    guard let line else { return nil }
    return text(line.dropFirst(label.count).drop { $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: " ") })
  }

  /// Whether any file system is mounted at an open directory.
  package static func isMountPoint(_ directory: borrowing Descriptor) throws(Errno) -> Bool {
    try identifier(ofMountOf: directory) != identifier(ofMountOf: directory.open("..", [.path]))
  }

  /// The type of the file system that an open file is on.
  package static func type(of file: borrowing Descriptor) throws(Errno) -> String? {
    guard let identifier = try identifier(ofMountOf: file) else { return nil }
    return fileSystem(ofMount: identifier, in: try read("/proc/self/mountinfo"))?.type
  }

  /// Whether what is at a path is in memory, and gone at the next boot: on a file system of such a type, or on an
  /// overlay that keeps there what is written. Of one that keeps it in a place that cannot be seen, that is not known.
  package static func isInMemory(_ path: String) -> Bool {
    guard let table = try? read("/proc/self/mountinfo"), let found = fileSystem(of: path, in: table) else {
      return false
    }
    guard let upper = found.upperDirectory else { return isOfMemory(found.type) }
    return fileSystem(of: upper, in: table).map { isOfMemory($0.type) } ?? false
  }

  private static func isOfMemory(_ type: String) -> Bool { ["tmpfs", "ramfs", "rootfs"].contains(type) }

  private static func fileSystem(of path: String, in table: [UInt8]) -> (type: String, upperDirectory: String?)? {
    guard let file = try? Descriptor.open(PathName(path), [.path]), let identifier = try? identifier(ofMountOf: file)
    else { return nil }
    return fileSystem(ofMount: identifier, in: table)
  }

  /// The type of the file system of a mount, by the content of a `mountinfo`, and where an overlay keeps what is
  /// written.
  static func fileSystem(
    ofMount identifier: String, in table: [UInt8]
  ) -> (type: String, upperDirectory: String?)? {
    for line in table.split(separator: UInt8(ascii: "\n")) {
      let fields = line.split(separator: UInt8(ascii: " "))
      guard fields.count >= 10, fields[0].elementsEqual(identifier.utf8),
        let separator = fields[6...].firstIndex(where: { $0.elementsEqual("-".utf8) }), separator + 1 < fields.count
      else { continue }
      let label = Array("upperdir=".utf8)
      let upper = fields.last?.split(separator: UInt8(ascii: ",")).first { $0.starts(with: label) }
      return (text(fields[separator + 1]), upper.map { unescaped($0.dropFirst(label.count)) })
    }
    return nil
  }

  /// Whether an open file is on this mount.
  package func contains(_ file: borrowing Descriptor) throws(Errno) -> Bool {
    try Self.identifier(ofMountOf: file) == identifier
  }

  /// Whether the mount still exists, even if it was moved.
  package func isListed() throws(Errno) -> Bool {
    try Self.listed().contains { $0.identifier == identifier && $0.device == device }
  }

  /// The other mounts of the same file system: bind mounts, and the original.
  package func sameFileSystem() -> [MountedFileSystem] {
    Self.all().filter { $0.device == device && $0 != self }
  }

  /// A directory that stands in for a mount.
  ///
  /// - Parameter device: what its files have for a device number, as `MAJOR:MINOR`.
  package init(standIn path: String, device: String) {
    (mountPoint, backing, owner) = (path, path, Process.identity.user)
    (identifier, self.device) = (path, device)
  }

  /// Parses a line; `nil` if it is not a protectfs mount.
  init?(line: ArraySlice<UInt8>) {
    let fields = line.split(separator: UInt8(ascii: " "))
    guard fields.count >= 10, let separator = fields[6...].firstIndex(where: { $0.elementsEqual("-".utf8) }),
      fields.count > separator + 3, fields[separator + 1].elementsEqual(Self.type.utf8)
    else { return nil }
    identifier = Self.text(fields[0])
    device = Self.text(fields[2])
    mountPoint = Self.unescaped(fields[4])
    backing = Self.unescaped(fields[separator + 2])
    let label = "user_id="
    let options = Self.text(fields[separator + 3]).split(separator: ",")
    owner = options.first { $0.hasPrefix(label) }.flatMap { UInt32($0.dropFirst(label.count)) } ?? 0
  }

  /// Decodes the octal escapes of spaces, tabs, newlines and backslashes.
  private static func unescaped(_ field: ArraySlice<UInt8>) -> String {
    var bytes: [UInt8] = []
    var rest = field
    while let byte = rest.popFirst() {
      let digits = rest.prefix(3)
      let isOctal = digits.count == 3 && digits.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "7")).contains($0) }
      if byte == UInt8(ascii: "\\"), isOctal, let value = UInt8(text(digits), radix: 8) {
        bytes.append(value)
        rest = rest.dropFirst(3)
      } else {
        bytes.append(byte)
      }
    }
    return text(bytes[...])
  }

  private static func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

  /// The whole content of a file of the kernel.
  private static func read(_ path: String) throws(Errno) -> [UInt8] {
    try Descriptor.open(PathName(path), [.readOnly]).readToEnd()
  }
}
