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
}
