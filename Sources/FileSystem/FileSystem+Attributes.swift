import BackingTree
import Contents
import FUSE
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// getattr, setattr, statfs.
extension ProtectedFileSystem {
  /// Returns inode attributes whatever the class. Through a handle of a locked file the request is refused: the kernel
  /// sends such a request before a cached write (fuse_update_attributes in fs/fuse/file.c).
  package func attributes(
    of id: NodeID, handle: Handle?, caller: Caller
  ) throws(Errno) -> (Status, timeout: Double) {
    let node = node(id)
    if handle != nil, let file = node.file, !file.isAllowed(.read) {
      if file.isRefused { throw .ioError }
      denied(.write, on: node, by: caller)
      throw .permissionDenied
    }
    let status = try tree.status(of: node)
    return (attributes(of: node, status), attributeTimeout(of: node))
  }

  package func setAttributes(
    of id: NodeID, handle: Handle?, to changes: AttributeChanges, caller: Caller
  ) throws(Errno) -> (Status, timeout: Double) {
    let node = node(id)
    if changes.size != nil {
      try reportingDenial(of: .resize, on: node, by: caller) { () throws(Errno) in
        try tree.requireNotDenied(.resize, on: node)
      }
    }
    // What can fail comes before a change of length, which cannot be undone.
    let reference = try tree.reference(to: node)
    // The kernel keeps the attributes that it has when the request fails.
    var isDone = false
    defer { if changes.changesPrivileges, !isDone { kernelAttributes.invalidate(id) } }
    if changes.changesPrivileges {
      try tree.holdingPrivileges(of: node) { () throws(Errno) in
        try reference.withDescriptor { (descriptor) throws(Errno) in
          try setPrivileges(changes, of: descriptor, caller: caller)
        }
      }
    }
    var resized: Status?
    // Until it has its new time: a file that is closed is given the kernel's, which is the one from before.
    var opened: ProtectedFile?
    defer { if let opened { tree.close(opened, of: node, wasWriter: true) } }
    if let size = changes.size {
      resized = try reference.withDescriptor { (descriptor) throws(Errno) in try descriptor.status() }
      try reportingDenial(of: .resize, on: node, by: caller) { () throws(Errno) in
        opened = try truncate(node, to: size, throughHandle: handle != nil)
      }
      resized?.size = tree.options.layout.backingLength(for: size)
    }
    node.file?.noteChange()
    tree.shiftOldTime(changes.modification, of: node)
    // The kernel sends times of its own accord, also within setxattr(2). They do not wait for a rekey that may hang.
    func apply(_ modification: TimeChange) throws(Errno) -> Status {
      try reference.withDescriptor { (descriptor) throws(Errno) in
        try setTimes(access: changes.access, modification, of: node, descriptor, resized: resized)
      }
    }
    let status =
      try changes.modification == .leave ? apply(.leave) : setModificationTime(changes.modification, of: node, apply)
    if node.isDirectory { node.state.withLock { $0.setsGroup = status.mode & 0o2000 != 0 } }
    isDone = true
    return (attributes(of: node, status), timeoutAfterChange(of: node))
  }

  /// Runs `body`, which gives the backing file a modification time; once more if the file was opened or closed
  /// meanwhile, or its record changed: whoever did that has not seen the time.
  private func setModificationTime(
    _ sent: TimeChange, of node: Node, _ body: (TimeChange) throws(Errno) -> Status
  ) throws(Errno) -> Status {
    func time() -> TimeChange { node.timeAfterRekeys(sent) }
    while true {
      let (file, changes, isUnlinked) = node.state.withLock { ($0.file, $0.classChanges, $0.unlinked != nil) }
      // The kernel sends the time of a file that was written and removed, which nobody will see any more.
      if isUnlinked, file == nil, node.isRegular {
        let status = try body(.leave)
        if status.links == 0 { return status }
      }
      let status = if let file { try file.setModificationTime(time, body) } else { try body(time()) }
      if node.state.withLock({ $0.file === file && $0.classChanges == changes }) { return status }
    }
  }

  private func setPrivileges(
    _ changes: AttributeChanges, of descriptor: borrowing Descriptor, caller: Caller
  ) throws(Errno) {
    if changes.user != nil || changes.group != nil || changes.isEmpty {
      try setOwner(of: descriptor, to: changes, caller: caller)
    } else if changes.clearsSetID {
      try clearSetID(of: descriptor, for: caller)
    }
    if let mode = changes.mode { try tree.ownerPermissions.set(mode, of: descriptor) }
  }

  /// Sets times, and returns the status afterwards.
  private func setTimes(
    access: TimeChange, _ modification: TimeChange, of node: Node, _ descriptor: borrowing Descriptor, resized: Status?
  ) throws(Errno) -> Status {
    do throws(Errno) {
      if access != .leave || modification != .leave {
        let modification = tree.backingTime(for: modification, of: node, descriptor)
        try descriptor.setTimes(access: access, modification: modification)
      }
      return try descriptor.status()
    } catch {
      // The kernel must learn the new length.
      guard let resized else { throw error }
      tree.log.warning("a modification time was not kept", metadata: ["error": "\(error)"])
      return resized
    }
  }

  /// Returns the file if it was opened for that, to be closed by the caller.
  private func truncate(_ node: Node, to size: UInt64, throughHandle: Bool) throws(Errno) -> ProtectedFile? {
    guard node.isRegular else { throw node.isDirectory ? .isDirectory : .invalidArgument }
    if throughHandle, let file = node.file {
      try truncate(file, to: size)
      return nil
    }
    let file = try tree.openFile(node, forWriting: true, operation: .resize)
    do throws(Errno) {
      try truncate(file, to: size)
      return file
    } catch {
      tree.close(file, of: node, wasWriter: true)
      throw error
    }
  }

  private func truncate(_ file: ProtectedFile, to size: UInt64) throws(Errno) {
    try file.truncate(to: size)
    tree.noteChange(of: file)
  }

  package func fileSystemStatus() throws(Errno) -> FileSystemStatus {
    var status = try tree.root.descriptor.fileSystemStatus()
    status.f_namemax = 255
    return status
  }
}
