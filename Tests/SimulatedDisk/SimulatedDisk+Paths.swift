import Glibc
import ProtectfsIO

/// What a path leads to.
enum Location {
  case inode(Int)
  /// There may be nothing of that name.
  case name(Change.Place)
}

extension SimulatedDisk {
  /// Where a path leads; `nil` if it is not on this disk. No symbolic link is followed, and the store follows none.
  ///
  /// - Throws: `ENOENT`, `ENOTDIR`.
  func locate(_ directory: CInt, _ path: String) throws(Failure) -> Location? {
    let start: Int
    var rest = path[...]
    if let (inode, behind) = throughDescriptor(path) {
      (start, rest) = (inode, behind)
    } else if path.hasPrefix("/") {
      let own = Self.path.description
      guard path == own || path.hasPrefix(own + "/") else { return nil }
      (start, rest) = (DiskImage.root, path.dropFirst(own.count))
    } else if let file = files[directory] {
      start = file.inode
    } else {
      return nil
    }
    var found = Location.inode(start)
    for name in rest.split(separator: "/") where name != "." {
      guard let inode = inode(at: found) else { throw Failure(ENOENT) }
      guard image[inode].type == .directory else { throw Failure(ENOTDIR) }
      precondition(name != "..", "the store goes up by no path")
      found = .name(.init(directory: inode, name: PathName(String(name))))
    }
    return found
  }

  /// The inode of `/proc/self/fd/N`, and what follows.
  private func throughDescriptor(_ path: String) -> (Int, Substring)? {
    let prefix = "/proc/self/fd/"
    guard path.hasPrefix(prefix) else { return nil }
    let rest = path.dropFirst(prefix.count)
    guard let number = CInt(rest.prefix { $0 != "/" }), let file = files[number] else { return nil }
    return (file.inode, rest.drop { $0 != "/" })
  }

  /// The inode at a location; `nil` if there is none.
  func inode(at location: Location) -> Int? {
    switch location {
    case .inode(let inode): inode
    case .name(let place): image[place.directory].entries[place.name]
    }
  }

  /// - Throws: `ENOENT`.
  func existing(_ location: Location) throws(Failure) -> Int {
    guard let inode = inode(at: location) else { throw Failure(ENOENT) }
    return inode
  }

  /// The name that a path ends with, in a directory.
  func place(_ location: Location) throws(Failure) -> Change.Place {
    guard case .name(let place) = location else { throw Failure(EEXIST) }
    return place
  }
}

/// The error of a call.
struct Failure: Error {
  let number: CInt

  init(_ number: CInt) { self.number = number }
}
