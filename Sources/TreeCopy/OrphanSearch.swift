import ProtectfsIO
import SystemPackage

/// A file whose class key is no more.
package struct Orphan {
  /// For people and programs: the path that was given, and below it as it was found.
  package let path: PathName
  package let directory: SharedDescriptor
  package let name: PathName
  package let identity: Identity

  /// By which it is known again.
  package struct Identity: Hashable {
    package let inode: UInt64
    package let size: UInt64
  }
}

/// Finds orphans below a path: files that answer `EKEYREVOKED` when opened, which is all that is done with them.
///
/// Symbolic links are not followed, mounts not crossed, and access times not moved.
package final class OrphanSearch {
  package private(set) var looked = 0
  /// How many files this user may not open.
  package private(set) var refused = 0
  /// How many files are under a class key that another keybag has: they are none.
  package private(set) var underOtherKeybags = 0
  /// Told of each item what came of looking at it; `nil` where nothing failed.
  private let report: (String, Errno?) -> Void
  private let found: (Orphan) -> Void

  package init(report: @escaping (String, Errno?) -> Void, _ found: @escaping (Orphan) -> Void) {
    self.report = report
    self.found = found
  }

  private typealias Directory = NestedDirectory<SharedDescriptor, Void>

  /// Looks at a file, or at everything in and below a directory.
  package func look(at path: String) {
    var descent = TreeDescent<SharedDescriptor, Void>()
    var device: UInt64 = 0
    attempt(PathName(path)) { () throws(Errno) in
      let (parent, name) = PathName(path).parted
      let directory = SharedDescriptor(try Descriptor.open(parent, [.path, .directory]))
      let status = try directory.descriptor.status(of: name)
      device = status.device
      guard status.type == .directory else { return try look(at: name, in: directory, PathName(path), status) }
      let root = SharedDescriptor(try directory.descriptor.open(name, [.path, .directory, .noFollow]))
      try enter(Directory(PathName(path), root, (), in: nil), root, &descent)
    }
    while let directory = descent.directory {
      guard let name = descent.nextName() else {
        descent.leave()
        continue
      }
      let path = directory.path(of: name)
      attempt(path) { () throws(Errno) in
        let parent = try descent.item()
        let status = try parent.descriptor.status(of: name)
        guard !status.isOutside(device) else { return }
        guard status.type == .directory else { return try look(at: name, in: parent, path, status) }
        let below = SharedDescriptor(try parent.descriptor.open(name, [.path, .directory, .noFollow]))
        try enter(Directory(name, below, (), in: directory), below, &descent)
      }
    }
  }

  private func enter(
    _ directory: Directory, _ opened: SharedDescriptor, _ descent: inout TreeDescent<SharedDescriptor, Void>
  ) throws(Errno) {
    descent.enter(directory, opened, try opened.names().usable)
  }

  private func look(
    at name: PathName, in directory: SharedDescriptor, _ path: PathName, _ status: Status
  ) throws(Errno) {
    guard status.type == .regular else { return }
    looked += 1
    switch Self.openError(name, in: directory) {
    case nil: break
    case .keyRevoked:
      found(
        Orphan(path: path, directory: directory, name: name, identity: .init(inode: status.inode, size: status.size)))
    case .noKey: underOtherKeybags += 1
    case Errno.permissionDenied: refused += 1
    case .some(let error): throw error
    }
  }

  /// Goes on after failures. What was removed meanwhile is as well as never there.
  private func attempt(_ path: PathName, _ body: () throws(Errno) -> Void) {
    var failure: Errno?
    do throws(Errno) { try body() } catch { failure = error == .noSuchFileOrDirectory && looked > 0 ? nil : error }
    report(path.description, failure)
  }

  /// What opening a file fails with.
  static func openError(_ name: PathName, in directory: SharedDescriptor) -> Errno? {
    do throws(Errno) {
      _ = try directory.descriptor.openQuietly(name, [.nonBlocking])
      return nil
    } catch {
      return error
    }
  }
}

extension PathName {
  /// The path of a name in this directory.
  package func appending(_ name: PathName) -> PathName {
    let path = bytes.last == UInt8(ascii: "/") ? bytes.dropLast() : bytes
    return PathName(bytes: path + [UInt8(ascii: "/")] + name.bytes)
  }

  /// The directory of a path, and the name in it. `.` for a path that ends in a slash or in dots, or is the root.
  package var parted: (directory: PathName, name: PathName) {
    let start = bytes.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0
    let name = PathName(bytes: bytes[start...])
    guard name.isEntryName else { return (self, ".") }
    return (start == 0 ? "." : PathName(bytes: bytes[..<start]), name)
  }
}
