import SystemPackage

/// The names in a directory, read once.
package struct DirectoryNames: ~Copyable {
  private let descriptor: Descriptor

  /// The names of an open directory, which must be at its start.
  package init(_ descriptor: consuming Descriptor) {
    self.descriptor = descriptor
  }

  /// Up to `limit` names, without `.` and `..`.
  package func all(limit: Int) throws(Errno) -> [PathName] {
    var names: [PathName] = []
    while names.count < limit {
      let next = try descriptor.nextNames()
      if next.isEmpty { break }
      names += next.prefix(limit - names.count)
    }
    return names
  }
}

extension Descriptor {
  /// Up to `limit` names in this directory, which may be opened without access.
  package func names(limit: Int = .max) throws(Errno) -> [PathName] {
    try DirectoryNames(open(".", [.readOnly, .directory])).all(limit: limit)
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
