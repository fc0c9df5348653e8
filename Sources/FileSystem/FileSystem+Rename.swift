import DataProtectionCore
import FUSE
import FileProtection
import LinuxIO
import StoreFormat
import SystemPackage

// rename, with the rule for a file that replaces one whose class was chosen.
extension ProtectedFileSystem {
  package func rename(
    _ name: PathName, in parent: NodeID, to newName: PathName, in newParent: NodeID, flags: RenameFlags
  ) throws(Errno) {
    let (source, target) = (nodes.node(parent), nodes.node(newParent))
    let (sourceHandle, sourceRecord) = try directory(source)
    let (targetHandle, targetRecord) = try directory(target)
    let old = try backingName(name, in: sourceRecord)
    let new = try backingName(newName, in: targetRecord)
    if flags.isDisjoint(with: [.exchange, .noReplace]), options.keepsReplacedClass {
      try keepReplacedClass(of: new.name, in: target, for: old.name, in: source)
    }
    let hasNewSidecar = try writeSidecar(of: new, in: targetHandle)
    do throws(Errno) {
      try keepingReplaced(new.name, in: targetHandle, flags) { () throws(Errno) in
        try renames.write { () throws(Errno) in
          do throws(Errno) {
            try sourceHandle.descriptor.rename(old.name, to: new.name, in: targetHandle.descriptor, flags: flags)
          } catch .directoryNotEmpty {
            // What a crash left in the directory to be replaced does not count.
            try removeLeftovers(in: new.name, of: targetHandle)
            try sourceHandle.descriptor.rename(old.name, to: new.name, in: targetHandle.descriptor, flags: flags)
          }
          noteMove(to: .init(parent: target, name: new.name), targetHandle)
          if flags.contains(.exchange) { noteMove(to: .init(parent: source, name: old.name), sourceHandle) }
        }
      }
    } catch {
      if error != .fileExists, hasNewSidecar { removeSidecar(of: new, in: targetHandle) }
      throw error
    }
    if flags.isDisjoint(with: [.exchange, .whiteout]), old.name != new.name || source !== target {
      removeSidecar(of: old, in: sourceHandle)
    }
  }

  private func keepingReplaced(
    _ name: PathName, in handle: SharedDescriptor, _ flags: RenameFlags, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    guard flags.isDisjoint(with: [.exchange, .noReplace]) else { return try body() }
    try keepingNameless(name, in: handle, body)
  }

  /// The kernel's node of what has just moved is found at its new place from now on.
  private func noteMove(to location: Node.Location, _ handle: SharedDescriptor) {
    moves.note(location)
    do throws(Errno) {
      let status = try handle.descriptor.status(of: location.name)
      nodes.find(status)?.moved(to: location, hasOtherNames: status.links > 1 && status.type != .directory)
    } catch {
      // Gone again already: whoever removed it behind the mount's back makes the node stale, which it says when asked.
      log.debug("a renamed file vanished", metadata: ["error": "\(error)"])
    }
  }

  /// When a file with a chosen class is replaced by one whose class was inherited, the new one takes the class over:
  /// this is how editors save.
  private func keepReplacedClass(
    of replaced: PathName, in target: Node, for name: PathName, in source: Node
  ) throws(Errno) {
    guard let old = try recordIfAny(of: replaced, in: target), old.isExplicit else { return }
    let handle = try directoryHandle(source)
    let status = try handle.descriptor.status(of: name)
    let new = try recordIfAny(of: name, in: source)
    if let new {
      guard !new.isExplicit else { return }
    } else {
      // One whose creation was cut short has no record yet, and so an inherited class.
      guard status.type == .regular, status.size == 0, try lacksRecord(name, in: handle) else { return }
    }
    let node = nodes.find(status) ?? Node(status, location: .init(parent: source, name: name))
    node.moved(to: .init(parent: source, name: name), hasOtherNames: status.links > 1)
    if new?.fileClass == old.fileClass { try chooseClass(of: node) } else { try setClass(old.fileClass, of: node) }
  }

  /// The record of a name, if it is a regular file's and authentic; damage is left to those who open the file.
  private func recordIfAny(of name: PathName, in directory: Node) throws(Errno) -> FileRecord? {
    let handle = try directoryHandle(directory)
    do throws(Errno) {
      let bytes = try recordBytes(of: name, in: handle)
      guard bytes.count != DirectoryRecord.size else { return nil }
      guard let record = try? FileRecord(parsing: bytes), (try? volume.isAuthentic(record)) == true else { return nil }
      return record
    } catch {
      switch error {
      case .noSuchFileOrDirectory, .noData, .notPermitted, .permissionDenied, .notSupportedOnSocket: return nil
      default: throw error
      }
    }
  }

  private func lacksRecord(_ name: PathName, in handle: SharedDescriptor) throws(Errno) -> Bool {
    do throws(Errno) {
      _ = try recordBytes(of: name, in: handle)
      return false
    } catch .noData {
      return true
    }
  }

  private func recordBytes(of name: PathName, in handle: SharedDescriptor) throws(Errno) -> [UInt8] {
    do throws(Errno) {
      return try handle.descriptor.linkAttribute(Self.recordAttribute, of: name)
    } catch .permissionDenied {
      let path = try handle.descriptor.open(name, [.path, .noFollow])
      return try lendingPermissions(of: path) { () throws(Errno) in
        try PathName(descriptor: path).attribute(Self.recordAttribute)
      }
    }
  }
}
