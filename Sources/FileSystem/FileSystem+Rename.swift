import BackingTree
import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// rename, with the rule for a file that replaces one with an explicit class.
extension ProtectedFileSystem {
  package func rename(
    _ name: PathName, in parent: NodeID, to newName: PathName, in newParent: NodeID, flags: RenameFlags,
    caller: Caller
  ) throws(Errno) {
    let (source, target) = (node(parent), node(newParent))
    let (sourceHandle, sourceRecord) = try tree.directory(source)
    let (targetHandle, targetRecord) = try tree.directory(target)
    let old = try tree.backingName(name, in: sourceRecord)
    let new = try tree.backingName(newName, in: targetRecord)
    let oldLocation = Node.Location(parent: source, name: old.name)
    let newLocation = Node.Location(parent: target, name: new.name)
    let isExchange = flags.contains(.exchange)
    let replaced = isExchange ? nil : try tree.named(new.name, in: targetHandle)
    if flags.contains(.noReplace), replaced != nil { throw .fileExists }
    let renamed = isExchange ? nil : try tree.named(old.name, in: sourceHandle)
    let former = former(renamed, at: oldLocation)
    if let replaced { try requireReplaceable(replaced, at: newLocation, by: renamed, at: oldLocation, caller) }
    if tree.options.keepsReplacedClass, let renamed {
      try keepClass(of: replaced, at: newLocation, for: renamed, at: oldLocation, caller: caller)
    }
    try tree.writeSidecar(of: new, in: targetHandle)
    do throws(Errno) {
      try tree.keepingUnlinked(replaced, at: newLocation) { () throws(Errno) in
        try tree.renames.write { () throws(Errno) in
          do throws(Errno) {
            try tree.ignoringLeftovers(in: new.name, of: targetHandle) { () throws(Errno) in
              try sourceHandle.descriptor.rename(old.name, to: new.name, in: targetHandle.descriptor, flags: flags)
            }
          } catch {
            // A walk that is under way looks at what may have been carried out.
            if ![.directoryNotEmpty, .fileExists].contains(error) {
              tree.moves.note(newLocation)
              if isExchange { tree.moves.note(oldLocation) }
            }
            guard error.mayBeDone, !isExchange, isDone(oldLocation, sourceHandle, new.name, targetHandle)
            else { throw error }
          }
          noteMove(from: oldLocation, to: newLocation, targetHandle)
          if isExchange { noteMove(from: newLocation, to: oldLocation, sourceHandle) }
        }
      }
    } catch {
      tree.removeSidecar(of: new, in: targetHandle, after: error)
      throw error
    }
    if !isExchange { tree.vacated.note(oldLocation, former) }
    if flags.isDisjoint(with: [.exchange, .whiteout]), oldLocation != newLocation {
      tree.removeSidecar(of: old, in: sourceHandle)
    }
  }

  /// Refuses to replace a file that is locked and has contents by one that a program can have made since it was refused
  /// that file: programs that go on without it, with what they have for none, would lose it. Where files of its class
  /// can be created, as in class B, an empty one alone is refused: a program that could not write comes with that. Of
  /// an open file that can still be written, or was closed a moment ago, the kernel may have more than the store.
  private func requireReplaceable(
    _ replaced: BackingTree.NamedFile, at location: Node.Location, by renamed: BackingTree.NamedFile?,
    at source: Node.Location, _ caller: Caller
  ) throws(Errno) {
    guard tree.options.keepsLocked, replaced.status.type == .regular, replaced.status.size > 0,
      let renamed, renamed.status.type == .regular,
      case .stored(let old, let node)? = try? storedRecord(of: replaced, at: location),
      !tree.controller.allows(.open, on: old.fileClass), !tree.controller.hasEnded(old)
    else { return }
    if tree.controller.allows(.remove, on: old.fileClass) || !canBeNew(renamed, at: source) {
      guard renamed.status.size == 0 else { return }
      let open = tree.nodes.find(renamed.status)?.state.withLock { $0.writers > 0 ? $0.file : nil }
      if let open, open.isAllowed(.write) { return }
    }
    denied(.remove, on: node, of: old.fileClass, by: caller)
    throw .permissionDenied
  }

  /// Whether a file could be made now as this one is. One whose class was set is put there by a program that knows of
  /// classes, and so of locked files.
  private func canBeNew(_ file: BackingTree.NamedFile, at location: Node.Location) -> Bool {
    guard case .stored(let record, _)? = try? storedRecord(of: file, at: location), !record.isExplicit else {
      return false
    }
    return tree.controller.allows(.create, on: record.fileClass)
  }

  /// Whether the new name is that of the node that had the old one, which is gone.
  private func isDone(
    _ old: Node.Location, _ source: SharedDescriptor, _ new: PathName, _ target: SharedDescriptor
  ) -> Bool {
    guard (try? source.descriptor.exists(old.name)) == false, let status = try? target.descriptor.status(of: new) else {
      return false
    }
    return tree.nodes.find(status)?.location == old
  }

  /// Updates the location of the kernel's node of a renamed file.
  private func noteMove(from old: Node.Location, to location: Node.Location, _ handle: SharedDescriptor) {
    tree.moves.note(location)
    do throws(Errno) {
      let status = try handle.descriptor.status(of: location.name)
      let hasOtherNames = status.links > 1 && status.type != .directory
      guard let node = tree.nodes.find(status) else { return }
      node.moved(to: location, hasOtherNames: hasOtherNames)
      if hasOtherNames, old != location { node.forget(old) }
    } catch {
      // It was removed behind the mount's back, so its node is stale and requests on it fail.
      tree.log.debug("a renamed file vanished", metadata: ["error": "\(error)"])
    }
  }

  /// If a file with an explicit class is replaced by one with an inherited class, the new file takes over the explicit
  /// class; so it does if it gets the name that such a file has left a moment ago, unless its own class protects more.
  /// Programs save files in these ways.
  ///
  /// - Throws: `EIO` if a class is unknown because a record is damaged or gone: the new file might get a weaker class
  ///   than the old one. `EPERM` if the caller may not change the class of the file that replaces another.
  private func keepClass(
    of replaced: BackingTree.NamedFile?, at location: Node.Location, for renamed: BackingTree.NamedFile,
    at source: Node.Location, caller: Caller
  ) throws(Errno) {
    var former: ProtectionClass?
    if let replaced {
      guard case .stored(let old, _) = try storedRecord(of: replaced, at: location), old.isExplicit else { return }
      former = old.fileClass
    } else if tree.vacated.former(at: location) == nil {
      return
    }
    let own: ProtectionClass?
    switch try storedRecord(of: renamed, at: source) {
    case .stored(let new, _) where new.isExplicit: return
    case .stored(let new, _): own = new.fileClass
    // A file whose creation was cut short has no record yet, and so an inherited class.
    case .awaited: own = nil
    case .noFile: return
    }
    let inherited = if let own { own } else { try tree.directory(source.parent).record.directoryClass }
    guard let kept = former ?? classLeft(at: location, by: renamed.status.user, insteadOf: inherited, caller)
    else { return }
    try requireOwner(of: renamed.status, caller)
    let node = tree.nodes.find(renamed.status) ?? Node(renamed.status, location: source)
    node.moved(to: source, hasOtherNames: renamed.status.links > 1)
    try reportingDenial(ofClass: kept, for: node, by: caller) { () throws(Errno) in
      if own == kept {
        try tree.makeClassExplicit(of: node)
      } else {
        try tree.setClass(kept, of: node)
      }
    }
  }
}
