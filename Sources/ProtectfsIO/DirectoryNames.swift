import SystemPackage

extension PathName {
  /// Up to `limit` names in this directory, without `.` and `..`.
  package func names(limit: Int = .max) throws(Errno) -> [PathName] {
    try Descriptor.open(self, [.readOnly, .directory]).remainingNames(limit: limit)
  }
}

extension Descriptor {
  /// Up to `limit` names in this directory, which may be opened without access.
  package func names(limit: Int = .max) throws(Errno) -> [PathName] {
    try open(".", [.readOnly, .directory]).remainingNames(limit: limit)
  }

  /// Up to `limit` names of this open directory, from where it is, without `.` and `..`.
  package func remainingNames(limit: Int = .max) throws(Errno) -> [PathName] {
    var names: [PathName] = []
    while names.count < limit {
      let next = try nextNames()
      if next.isEmpty { break }
      names += next.prefix(limit - names.count)
    }
    return names
  }

  /// The next few hundred names of this open directory, without `.` and `..`; none at its end (getdents64(2)).
  package func nextNames() throws(Errno) -> [PathName] {
    while true {
      let entries = try nextEntries()
      let names = entries.map(\.name).filter { $0 != "." && $0 != ".." }
      if entries.isEmpty || !names.isEmpty { return names }
    }
  }
  /// Whether this directory is one with that status, or is below it: by what they are, and not by how they are called.
  package func isInside(_ other: Status) throws(Errno) -> Bool {
    var below = try status()
    if below.isSame(as: other) { return true }
    var directory = SharedDescriptor(try open("..", [.path, .directory]))
    while true {
      let status = try directory.descriptor.status()
      if status.isSame(as: below) { return false }
      if status.isSame(as: other) { return true }
      directory = SharedDescriptor(try directory.descriptor.open("..", [.path, .directory]))
      below = status
    }
  }
}
