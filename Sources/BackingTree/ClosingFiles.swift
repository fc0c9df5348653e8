import FileProtection
import ProtectfsIO
import SystemPackage

// Closing files, and the modification times that they have then.
extension BackingTree {
  /// Closes a handle. The last one also closes the file and frees its key.
  package func close(_ file: ProtectedFile, of node: Node, wasWriter: Bool) {
    // What a failed change has left behind the end is forgotten with the file.
    do throws(Errno) {
      try file.repair()
    } catch {
      log.warning("a failed change stays visible in a file's length", metadata: ["error": "\(error)"])
    }
    var isLast: Bool?
    var pin = pinToClean(node)
    while isLast == nil {
      isLast = node.state.withLock { state in
        // While the file is in the node, a thread that sets the time waits for this change, and a thread that opens the
        // file anew finds the right time.
        if state.handles == 1, file.isModificationTimeMoved || state.isKeptByFile { return nil }
        state.handles -= 1
        if wasWriter { state.writers -= 1 }
        guard state.handles == 0 else { return false }
        state.file = nil
        // A thread that is reading the file's record and length has read them from before the changes of this file.
        state.classChanges &+= 1
        openFiles.remove(file)
        // Before anybody can open the file anew and change it.
        if pin === node, state.unlinked == nil, noteClosed(file, of: node) { pin = nil }
        return true
      }
      if isLast == nil {
        applyModificationTime(of: file)
        keepUnlinked(file, of: node)
      }
    }
    if let pin { nodes.forget(pin, count: 1) }
    if isLast == true, !controller.allows(.open, on: file.fileClass) { pagesAreStale(node) }
  }

  /// Keeps an open file that has no name for when it is closed. Without a descriptor it becomes stale then.
  private func keepUnlinked(_ file: ProtectedFile, of node: Node) {
    guard node.state.withLock({ $0.isKeptByFile }) else { return }
    let kept = try? file.withDescriptor { (descriptor) throws(Errno) in
      SharedDescriptor(try Descriptor.open(PathName(descriptor: descriptor), [.path]))
    }
    node.state.withLock { state in
      // The removal may have failed meanwhile.
      guard state.isKeptByFile else { return }
      state.isKeptByFile = false
      state.unlinked = kept
    }
  }

  /// Gives all open files the modification times that the kernel has, at the end of the mount. For files closed just
  /// before, the kernel no longer sends a time (fuse_conn_destroy in fs/fuse/inode.c).
  package func applyModificationTimes() {
    for file in openFiles.all { applyModificationTime(of: file) }
  }

  func applyModificationTime(of file: ProtectedFile) {
    do throws(Errno) {
      try file.applyModificationTime()
    } catch {
      log.warning("a modification time was not kept", metadata: ["error": "\(error)"])
    }
  }
}
