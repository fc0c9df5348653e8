import ProtectfsLibc
import SystemPackage

/// A path or a name in the kernel's form: any bytes but NUL, terminated by a NUL.
///
/// Linux names are bytes, not text. `String` would change or refuse some of them.
package struct PathName: Sendable, Hashable {
  /// The bytes with the terminating NUL.
  package let terminated: [UInt8]

  /// The bytes without the terminating NUL.
  package var bytes: ArraySlice<UInt8> { terminated.dropLast() }

  /// A name with these bytes, which must not contain NUL.
  package init(bytes: some Sequence<UInt8>) {
    var terminated: [UInt8] = []
    terminated.reserveCapacity(bytes.underestimatedCount + 1)
    terminated.append(contentsOf: bytes)
    terminated.append(0)
    self.terminated = terminated
  }

  /// A name with the UTF-8 bytes of a string.
  package init(_ string: String) {
    self.init(bytes: string.utf8)
  }

  /// A copy of a C string.
  package init(copying pointer: UnsafePointer<CChar>) {
    unsafe terminated = Array(UnsafeRawBufferPointer(start: pointer, count: strlen(pointer) + 1))
  }

  private static let descriptors = Array("/proc/self/fd/".utf8)

  /// The path of an open descriptor in `/proc`, for calls that do not accept a descriptor opened with `O_PATH`.
  package init(descriptor: borrowing Descriptor) {
    // An interpolated string takes several times as long, which removing many files shows.
    var path = Self.descriptors
    path.append(contentsOf: String(descriptor.rawValue).utf8)
    path.append(0)
    terminated = path
  }

  /// Calls `body` with the name as a C string.
  package func withCString<Result, Failure: Error>(
    _ body: (UnsafePointer<CChar>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe terminated.withUnsafeBufferPointer { (buffer) throws(Failure) -> Result in
      try unsafe UnsafeRawPointer(buffer.baseAddress!).withMemoryRebound(
        to: CChar.self, capacity: buffer.count
      ) { (pointer) throws(Failure) -> Result in try unsafe body(pointer) }
    }
  }
}

extension PathName {
  /// Whether this can be the name of a directory entry: not empty, no slash, no NUL, neither `.` nor `..`.
  package var isEntryName: Bool {
    !bytes.isEmpty && self != "." && self != ".." && !bytes.contains(UInt8(ascii: "/")) && !bytes.contains(0)
  }
}

extension PathName {
  /// Whether there is something at the path; of a symbolic link, where it leads.
  package var isThere: Bool { (try? Descriptor.open(self, [.path])) != nil }

  /// The lines of a file of the system's that are not empty; none if it cannot be read.
  package var lines: [Substring] {
    let bytes = try? Descriptor.open(self, [.readOnly]).readToEnd()
    return String(decoding: bytes ?? [], as: UTF8.self).split(separator: "\n")
  }

  /// The first of them.
  package var firstLine: String? { lines.first.map(String.init) }

  /// The path of an existing file without symbolic links, `.` and `..`. A file system that is mounted there gets no
  /// request, so this works for dead mounts too.
  package func canonical() throws(Errno) -> PathName {
    let file = try Descriptor.open(self, [.path])
    let root = try Descriptor.open("/", [.readOnly, .directory])
    return PathName(bytes: try root.target(ofSymbolicLink: PathName(descriptor: file)))
  }
}

extension PathName: ExpressibleByStringLiteral, CustomStringConvertible {
  /// The name in a literal.
  package init(stringLiteral value: String) {
    self.init(value)
  }

  /// The name for users. Bytes that are not UTF-8 are shown as U+FFFD.
  package var description: String { String(decoding: bytes, as: UTF8.self) }
}
