import ProtectfsIO
import StoreFormat
import SystemPackage

/// Moves what does not belong in the tree to `.protectfs/lost+found`, without losing a byte. The directory is created
/// when it is first needed. Each step is one rename, so after a crash an entry is in one of the two places.
final class Repair {
  static let name: PathName = "lost+found"
  private static let path = "/\(NameEncoding.storeDirectory)/lost+found"
  /// The maximum length of a name in file systems, in bytes (`NAME_MAX`).
  private static let longestName = 255

  private let store: Descriptor
  private var lostAndFound: SharedDescriptor?

  /// - Parameter store: the store's own directory.
  init(store: borrowing Descriptor) throws(Errno) {
    self.store = try store.open(".", [.readOnly, .directory])
  }

  /// Moves a name out of a directory, together with its sidecar. The sidecar is moved first: a crash must not leave it
  /// behind alone, where it would be taken for a leftover. Returns the new place of the file.
  func move(
    _ name: PathName, sidecar: PathName? = nil, from directory: borrowing Descriptor
  ) throws(Errno) -> Finding.Outcome {
    let target = try openLostAndFound()
    let (free, freeSidecar) = try freeName(for: name, withSidecar: sidecar != nil, in: target.descriptor)
    if let sidecar {
      do throws(Errno) {
        try rename(sidecar, to: freeSidecar, from: directory, in: target.descriptor)
      } catch .noSuchFileOrDirectory {
        // There is no sidecar, which may be the defect itself.
      }
    }
    do throws(Errno) {
      try rename(name, to: free, from: directory, in: target.descriptor)
    } catch .permissionDenied {
      // A directory must itself be writable to be moved to another parent.
      let moved = try directory.open(name, [.path, .noFollow])
      try moved.addingOwnerPermissions(0o300, notRestored: { (_, _) in }) { () throws(Errno) in
        try rename(name, to: free, from: directory, in: target.descriptor)
      }
    }
    return .moved(to: "\(Self.path)/\(free)")
  }

  /// Moves an extended attribute into a file of its own.
  func moveAttribute(
    _ name: PathName, value: [UInt8], of file: borrowing Descriptor
  ) throws(Errno) -> Finding.Outcome {
    let target = try openLostAndFound()
    let (free, _) = try freeName(for: name, withSidecar: false, in: target.descriptor)
    let copy = try target.descriptor.open(free, [.writeOnly, .create, .exclusive, .noFollow], mode: 0o600)
    try copy.write(value)
    try copy.synchronize()
    try target.descriptor.synchronize()
    let path = PathName(descriptor: file)
    do throws(Errno) {
      try path.removeAttribute(name)
    } catch .permissionDenied {
      try file.addingOwnerPermissions(0o600, notRestored: { (_, _) in }) { () throws(Errno) in
        try path.removeAttribute(name)
      }
    }
    return .moved(to: "\(Self.path)/\(free)")
  }

  /// Makes what was moved durable.
  func finish() throws(Errno) {
    guard let lostAndFound else { return }
    try lostAndFound.descriptor.synchronize()
    try store.synchronize()
  }

  private func openLostAndFound() throws(Errno) -> SharedDescriptor {
    if let lostAndFound { return lostAndFound }
    do throws(Errno) { try store.makeDirectory(Self.name, mode: 0o700) } catch .fileExists {}
    let opened = SharedDescriptor(try store.open(Self.name, [.readOnly, .directory, .noFollow]))
    lostAndFound = opened
    return opened
  }

  /// A name that is not in use: the entry's own, or that with a number. If `withSidecar`, the name of its sidecar is
  /// not in use either.
  private func freeName(
    for name: PathName, withSidecar: Bool, in directory: borrowing Descriptor
  ) throws(Errno) -> (PathName, sidecar: PathName) {
    var number = 0
    while true {
      let suffix = number == 0 ? [] : Array(".\(number)".utf8)
      let free = PathName(bytes: Array(name.bytes.prefix(Self.longestName - suffix.count)) + suffix)
      let sidecar = PathName(bytes: Array(free.bytes) + NameEncoding.sidecarSuffix)
      let isTaken = try directory.exists(free)
      let isSidecarTaken = withSidecar ? try directory.exists(sidecar) : false
      if !isTaken && !isSidecarTaken { return (free, sidecar) }
      number += 1
    }
  }

  private func rename(
    _ name: PathName, to target: PathName, from directory: borrowing Descriptor, in other: borrowing Descriptor
  ) throws(Errno) {
    do throws(Errno) {
      try directory.rename(name, to: target, in: other, flags: .noReplace)
    } catch .invalidArgument {
      // Not every file system supports the flag. The name was not in use, and the store is locked.
      try directory.rename(name, to: target, in: other)
    }
  }
}
