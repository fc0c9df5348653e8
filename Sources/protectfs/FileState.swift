import LinuxIO
import SystemPackage

/// What a file has beside its contents, as it was at one moment, and how what was changed since comes to its copy.
struct FileState: Sendable {
  /// One thing that can be changed by itself.
  private enum Property: Hashable {
    case fileClass, user, group, permissions, modificationTime
    case attribute(PathName)
  }

  private enum Value: Hashable {
    case fileClass(FileClass)
    case number(UInt32)
    case time([Int64])
    case bytes([UInt8])
  }

  let metadata: FileMetadata
  let fileClass: FileClass
  private let values: [Property: Value]

  /// Takes the state of an open file.
  init(of file: SharedDescriptor) throws(Errno) {
    metadata = try FileMetadata(of: file, .all)
    fileClass = try FileClass(of: PathName(descriptor: file.descriptor))
    let status = metadata.status
    var values: [Property: Value] = [
      .fileClass: .fileClass(fileClass), .user: .number(status.user), .group: .number(status.group),
      .permissions: .number(status.permissions), .modificationTime: .time(status.modificationTime),
    ]
    for (name, value) in metadata.attributeValues { values[.attribute(name)] = .bytes(value) }
    self.values = values
  }

  /// Whether nothing was changed between two moments. Times of change are left out: they are too coarse to tell.
  func isSame(as other: FileState) -> Bool {
    let (status, others) = (metadata.status, other.metadata.status)
    return values == other.values && status.size == others.size && status.links == others.links
  }

  /// Gives another file what was changed in this one since an earlier moment. What was changed in both stays as the other
  /// one has it, which has been the one with the name since.
  ///
  /// - Parameter given: the state of the other one at that moment.
  func carryChanges(
    since earlier: FileState, to other: SharedDescriptor, thatHad given: FileState
  ) throws(Errno) {
    let now = try FileState(of: other)
    let properties = Set(values.keys).union(earlier.values.keys)
    let changed = properties.filter { values[$0] != earlier.values[$0] && now.values[$0] == given.values[$0] }
    guard !changed.isEmpty else { return }
    let path = PathName(descriptor: other.descriptor)
    if changed.contains(.fileClass) { try fileClass.assign(to: path) }
    let status = metadata.status
    if changed.contains(.user) || changed.contains(.group) {
      try other.descriptor.setOwner(
        user: changed.contains(.user) ? status.user : nil, group: changed.contains(.group) ? status.group : nil)
    }
    for case .attribute(let name) in changed {
      guard case .bytes(let value) = values[.attribute(name)] else {
        try path.removeAttribute(name)
        continue
      }
      try path.setAttribute(name, to: value)
    }
    // A change of owner, or of an access list, changes permissions.
    if changed.contains(.permissions) { try other.descriptor.setModeThroughPath(status.permissions) }
    // All of this has left the time of the contents alone.
    if changed.contains(.modificationTime) { try metadata.applyTimes(to: other) }
  }
}
