import Cryptography
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// Reading and setting the protection class of files and directories.
extension BackingTree {
  /// A node's class, and whether the class is explicit rather than inherited. Needs no class key.
  ///
  /// - Throws: `ENODATA` for nodes without a class: links, devices, fifos and sockets. `EIO` for a record that is
  ///   damaged or gone.
  package func protectionClass(of node: Node) throws(Errno) -> (ProtectionClass, isExplicit: Bool) {
    if node.isDirectory {
      let record = try directory(node).record
      return (record.directoryClass, record.isExplicit)
    }
    guard node.isRegular else { throw .noData }
    if let record = try currentRecord(of: node) { return (record.fileClass, record.isExplicit) }
    // The creation of this file was cut short. The file will be given its directory's class.
    guard let parent = node.location?.parent else { throw .noData }
    return (try directory(parent).record.directoryClass, false)
  }

  /// The record of a regular file, or `nil` if the file has none yet. Needs no class key.
  package func currentRecord(of node: Node) throws(Errno) -> FileRecord? {
    guard node.isRegular else { return nil }
    if let file = recordSource.openFile(node) { return file.record }
    let reference = try reference(to: node)
    do throws(Errno) {
      return try reference.withDescriptor { (descriptor) throws(Errno) in
        try verifiedFileRecord(recordBytes(of: descriptor), of: node, descriptor)
      }
    } catch .noData {
      guard try status(of: node).size == 0 else {
        damaged(node, "the file has contents but no record, and so no class")
        throw .ioError
      }
      return nil
    }
  }

  /// Sets the class of a file or directory, in one atomic setxattr(2).
  ///
  /// A file's key is wrapped again. If the class is raised, the file gets a new key, and its contents are re-encrypted
  /// afterwards. The class of a directory applies to what is created in it later.
  ///
  /// - Throws: `EACCES` for a file when the old or the new class is locked; `ENOSPC` if there is no room for a record
  ///   with two keys; at a raise, what ``rekeyed(_:for:isExplicit:of:_:)`` throws.
  package func setClass(
    _ newClass: ProtectionClass, of node: Node, isExplicit: Bool = true, _ rekeying: Rekeying = .onRaise
  ) throws(Errno) {
    if node.isDirectory { return try setDirectoryClass(newClass, of: node, isExplicit: isExplicit) }
    guard node.isRegular else { throw .notSupportedOnSocket }
    try withOpenFile(node, for: .rewrapFrom, writing: false) { (file) throws(Errno) in
      // Open files keep working after the lock, so the key is fetched while it is available.
      if newClass.keepsOpenFiles { _ = try file.cipher(for: .rewrapFrom) }
      // Also when the change fails: by then the new class may be noted.
      defer { cacheClass(of: file, node) }
      let old = file.record
      try changeKey(of: file, node) { (record, isEmpty) throws(Errno) in
        let isRaise = ProtectionPolicy.isRaise(from: record.fileClass, to: newClass)
        // Before the check of the new class: a lock that begins after it finds the file there, and pushes and drops its
        // pages. A lock of class B leaves open files alone.
        if isRaise || record.fileClass.keepsOpenFiles { node.state.withLock { $0.cachedClass = newClass } }
        guard rekeying == .onRaise, isRaise else {
          return .rewrapped(try rewrapped(record, for: newClass, isExplicit: isExplicit))
        }
        guard controller.allows(.rewrapTo, on: newClass) else { throw .permissionDenied }
        return try rekeyed(record, for: newClass, isExplicit: isExplicit, of: file, isEmpty)
      }
      cacheClass(of: file, node)
      keyHasChanged(of: file, node)
      try makeKeyDurable(of: file, insteadOf: old)
    }
  }

  /// Notes the class that an open file has now.
  private func cacheClass(of file: ProtectedFile, _ node: Node) {
    node.state.withLock { state in
      // Read under the node's lock, so that none of an older record follows.
      state.cache(file.wrappingKey)
      state.classChanges &+= 1
    }
  }

  /// Marks the current class of a file as explicit. No key is wrapped, so this also works for class B while it is
  /// locked.
  package func makeClassExplicit(of node: Node) throws(Errno) {
    try withOpenFile(node, for: .rewrapTo, writing: false) { (file) throws(Errno) in
      try changeKey(of: file, node) { (record, _) throws(Errno) in
        var record = record
        record.isExplicit = true
        return .rewrapped(try tagged(record))
      }
      cacheClass(of: file, node)
    }
  }

  /// The record with its key wrapped for a class. If class and class key stay the same, only the flag changes.
  func rewrapped(
    _ record: FileRecord, for newClass: ProtectionClass, isExplicit: Bool? = nil
  ) throws(Errno) -> FileRecord {
    guard controller.allows(.rewrapTo, on: newClass) else { throw .permissionDenied }
    var changed = record
    if newClass != record.fileClass || !controller.isCurrent(record) {
      changed = try wrapped(controller.fileKey(of: record), for: newClass, in: record)
    }
    changed.isExplicit = isExplicit ?? record.isExplicit
    return try tagged(changed)
  }

  private func setDirectoryClass(
    _ newClass: ProtectionClass, of node: Node, isExplicit: Bool
  ) throws(Errno) {
    // The root's class is the volume's default, which is never `none`.
    if node === nodes.root, newClass == .none { throw .invalidArgument }
    var (handle, record) = try directory(node)
    record.directoryClass = newClass
    record.isExplicit = isExplicit
    try writeDirectoryRecord(record, to: handle.descriptor)
    node.state.withLock { [record] in $0.directory = record }
  }
}
