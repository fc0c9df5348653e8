import Glibc
import ProtectfsIO
import SystemPackage

/// A file whose class key is no more.
struct Orphan {
  /// For people and programs: the path that was given, and below it as it was found.
  let path: PathName
  let directory: SharedDescriptor
  let name: PathName
  let identity: Identity

  /// By which it is known again.
  struct Identity: Hashable {
    let inode: UInt64
    let size: UInt64
  }
}

/// Finds orphans below a path: files that answer `EKEYREVOKED` when opened, which is all that is done with them.
///
/// Symbolic links are not followed, mounts not crossed, and access times not moved.
final class OrphanSearch {
  private(set) var looked = 0
  /// How many files this user may not open.
  private(set) var refused = 0
  /// How many files are under a class key that another keybag has: they are none.
  private(set) var underOtherKeybags = 0
  private let failures: FailureCount?
  private let progress = ProgressLine()
  private let found: (Orphan) -> Void

  /// - Parameter failures: told of everything that is looked at; `nil` when that was told already.
  init(_ failures: FailureCount?, _ found: @escaping (Orphan) -> Void) {
    self.failures = failures
    self.found = found
  }

  /// Looks at a file, or at everything in and below a directory.
  func look(at path: String) {
    attempt(PathName(path)) { () throws(Errno) in
      let (parent, name) = PathName(path).parted
      let directory = SharedDescriptor(try Descriptor.open(parent, [.path, .directory]))
      let status = try directory.descriptor.status(of: name)
      try look(at: name, in: directory, PathName(path), status, status.device)
    }
    progress.clear()
  }

  private func visit(_ directory: SharedDescriptor, _ path: PathName, _ device: UInt64) throws(Errno) {
    while true {
      let names = try directory.descriptor.nextNames()
      guard !names.isEmpty else { return }
      for name in names {
        let path = path.appending(name)
        attempt(path) { () throws(Errno) in
          let status = try directory.descriptor.status(of: name)
          guard status.device == device, status.is_mount_root == 0 else { return }
          try look(at: name, in: directory, path, status, device)
        }
      }
    }
  }

  private func look(
    at name: PathName, in directory: SharedDescriptor, _ path: PathName, _ status: Status, _ device: UInt64
  ) throws(Errno) {
    switch status.type {
    case .directory:
      try visit(SharedDescriptor(directory.descriptor.openQuietly(name, [.directory])), path, device)
    case .regular:
      looked += 1
      progress.show("\(looked.files) looked at")
      switch Self.openError(name, in: directory) {
      case nil: break
      case .keyRevoked:
        progress.clear()
        found(
          Orphan(path: path, directory: directory, name: name, identity: .init(inode: status.inode, size: status.size)))
      case .noKey: underOtherKeybags += 1
      case Errno.permissionDenied: refused += 1
      case .some(let error): throw error
      }
    default: break
    }
  }

  /// Goes on after failures. What was removed meanwhile is as well as never there.
  private func attempt(_ path: PathName, _ body: () throws(Errno) -> Void) {
    var failure: Errno?
    do throws(Errno) { try body() } catch { failure = error == .noSuchFileOrDirectory && looked > 0 ? nil : error }
    failures?.attempt(path.description) { () throws(Errno) in if let failure { throw failure } }
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

  /// Says what could not be looked at, and what is not shown.
  func tellOthers() {
    if refused > 0 {
      CommandFailure.report("\(refused.files) could not be looked at: locked, or not this user's to open")
    }
    if underOtherKeybags > 0 {
      CommandFailure.report(
        "\(underOtherKeybags.files) under class keys that the keybag does not have: no orphans, since another keybag opens "
          + "them ('protectfs keybag restore', 'protectfs keybag import')")
    }
  }
}

extension Descriptor {
  /// Opens a name for reading, so that no access time moves where that can be had; no symbolic link is followed.
  func openQuietly(_ name: PathName, _ flags: OpenFlags = []) throws(Errno) -> Descriptor {
    let flags = flags.union([.readOnly, .noFollow])
    do throws(Errno) {
      return try open(name, flags.union(.keepAccessTime))
    } catch .notPermitted {
      // Only the owner and root may ask for that.
      return try open(name, flags)
    }
  }
}

extension PathName {
  /// The path of a name in this directory.
  func appending(_ name: PathName) -> PathName {
    let path = bytes.last == UInt8(ascii: "/") ? bytes.dropLast() : bytes
    return PathName(bytes: path + [UInt8(ascii: "/")] + name.bytes)
  }

  /// The directory of a path, and the name in it. `.` for a path that ends in a slash or in dots, or is the root.
  var parted: (directory: PathName, name: PathName) {
    let start = bytes.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0
    let name = PathName(bytes: bytes[start...])
    guard name.isEntryName else { return (self, ".") }
    return (start == 0 ? "." : PathName(bytes: bytes[..<start]), name)
  }
}
