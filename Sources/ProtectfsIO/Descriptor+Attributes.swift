import CProtectfsIO
import SystemPackage

// Extended attributes of an open file (not one opened with `O_PATH`); xattr(7).
extension Descriptor {
  /// Reads an attribute's value into `buffer` and returns its length. With an empty buffer, returns only the length.
  package func attribute(_ name: PathName, into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
    try call(
      "fgetxattr", unsafe name.withCString { unsafe store_fgetxattr(rawValue, $0, buffer.baseAddress, buffer.count) })
  }

  /// An attribute's value.
  package func attribute(_ name: PathName) throws(Errno) -> [UInt8] {
    try unsafe readGrowing { (buffer) throws(Errno) in try unsafe attribute(name, into: buffer) }
  }

  /// Sets an attribute; `mode` says whether it may or must exist.
  package func setAttribute(
    _ name: PathName, to value: [UInt8], mode: AttributeMode = .createOrReplace
  ) throws(Errno) {
    try call(
      "fsetxattr",
      unsafe name.withCString { (name) in
        unsafe value.withBytes { unsafe store_fsetxattr(rawValue, name, $0.baseAddress, $0.count, mode.rawValue) }
      })
  }

  /// The names of all attributes.
  package func attributeNames() throws(Errno) -> [PathName] {
    try unsafe readNames { (list, count) throws(Errno) in
      try call("flistxattr", unsafe store_flistxattr(rawValue, list, count))
    }
  }

  /// Removes an attribute.
  package func removeAttribute(_ name: PathName) throws(Errno) {
    try call("fremovexattr", unsafe name.withCString { unsafe store_fremovexattr(rawValue, $0) })
  }
}

extension Descriptor {
  /// An attribute of a name in this directory. A symbolic link is not followed (lgetxattr(2), through /proc).
  package func linkAttribute(_ name: PathName, of entry: PathName) throws(Errno) -> [UInt8] {
    let path = PathName(bytes: Array("/proc/self/fd/\(rawValue)/".utf8) + entry.bytes)
    return try unsafe readGrowing { (buffer) throws(Errno) in
      try unsafe call(
        "lgetxattr",
        path.withCString { path in
          unsafe name.withCString { unsafe store_lgetxattr(path, $0, buffer.baseAddress, buffer.count) }
        })
    }
  }
}

// The same calls by path, for descriptors opened with `O_PATH`: `PathName(descriptor:)`.
extension PathName {
  /// An attribute's value (getxattr(2)).
  package func attribute(_ name: PathName) throws(Errno) -> [UInt8] {
    try unsafe readGrowing { (buffer) throws(Errno) in
      try call(
        "getxattr",
        unsafe withCString { path in
          unsafe name.withCString { unsafe store_getxattr(path, $0, buffer.baseAddress, buffer.count) }
        })
    }
  }

  /// Sets an attribute (setxattr(2)).
  package func setAttribute(
    _ name: PathName, to value: [UInt8], mode: AttributeMode = .createOrReplace
  ) throws(Errno) {
    try call(
      "setxattr",
      unsafe withCString { path in
        unsafe name.withCString { name in
          unsafe value.withBytes { unsafe store_setxattr(path, name, $0.baseAddress, $0.count, mode.rawValue) }
        }
      })
  }

  /// The names of all attributes (listxattr(2)).
  package func attributeNames() throws(Errno) -> [PathName] {
    try unsafe readNames { (list, count) throws(Errno) in
      try call("listxattr", unsafe withCString { unsafe store_listxattr($0, list, count) })
    }
  }

  /// Removes an attribute, of a symbolic link itself (lremovexattr(2)).
  package func removeLinkAttribute(_ name: PathName) throws(Errno) {
    try call(
      "lremovexattr", unsafe withCString { path in unsafe name.withCString { unsafe store_lremovexattr(path, $0) } })
  }

  /// Removes an attribute (removexattr(2)).
  package func removeAttribute(_ name: PathName) throws(Errno) {
    try call(
      "removexattr", unsafe withCString { path in unsafe name.withCString { unsafe store_removexattr(path, $0) } })
  }
}

/// Whether an attribute may, must or must not exist when it is set.
package enum AttributeMode: CInt, Sendable {
  case createOrReplace = 0
  case create = 1
  case replace = 2
  /// Both conditions, of which one always fails.
  case createAndReplace = 3
}

/// Reads a list of names, each of which ends with a NUL.
private func readNames(
  _ read: (UnsafeMutablePointer<CChar>?, Int) throws(Errno) -> Int
) throws(Errno) -> [PathName] {
  let list = try unsafe readGrowing { (buffer) throws(Errno) in
    try unsafe read(buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
  }
  return list.split(separator: 0).map { PathName(bytes: $0) }
}

/// Reads a value of unknown length: first with a buffer that is almost always large enough, then with the length that
/// the kernel reports.
private func readGrowing(
  _ read: (UnsafeMutableRawBufferPointer) throws(Errno) -> Int
) throws(Errno) -> [UInt8] {
  var capacity = 512
  while true {
    var bytes = [UInt8](repeating: 0, count: capacity)
    do {
      let count = try unsafe bytes.withMutableBytes { (buffer) throws(Errno) in try unsafe read(buffer) }
      bytes.removeSubrange(count...)
      return bytes
    } catch .outOfRange {
      capacity = try unsafe read(UnsafeMutableRawBufferPointer(start: nil, count: 0)) + 64
    }
  }
}
