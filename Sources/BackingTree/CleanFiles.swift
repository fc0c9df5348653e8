import Contents
import FileProtection
import ProtectfsIO
import StoreFormat
import SystemPackage

// Marks of clean files, in stores that have them. A record has one from when the contents are durable until they change
// again, and its tag covers their length.
extension BackingTree {
  /// A file that was changed and closed, and is not clean.
  final class ClosedFile: Sendable {
    /// Pinned in the inode table.
    let node: Node
    /// What it was then. Nobody else's change is taken for ours.
    let contents: CleanContents

    init(_ node: Node, _ contents: CleanContents) { (self.node, self.contents) = (node, contents) }
  }

  // MARK: Unclean

  /// What must be done before a file's contents change for the first time since it was opened; `nil` if nothing.
  func changeAnnouncement(of node: Node) -> (@Sendable (ProtectedFile) throws(Errno) -> Void)? {
    guard options.layout.isAuthenticated, options.writers.mayWrite else { return nil }
    return { [unowned self] (file) throws(Errno) in try beginChanging(file, node) }
  }

  /// Makes a file unclean. Whoever is about to make it clean has done so by then, or will not.
  ///
  /// Where the file system writes the attribute no later than a change of the length or of holes, it need not be
  /// durable: whatever a power cut leaves of bytes that were overwritten verifies.
  private func beginChanging(_ file: ProtectedFile, _ node: Node) throws(Errno) {
    // It may be another one by now.
    if recordSource.mustRenew(file) { try renewRecord(of: file, node) }
    try keyChanges.read { () throws(Errno) in
      forgetClosed(node)
      try file.changeKey { (record, _) throws(Errno) in
        guard record.clean != nil else { return .rewrapped(record) }
        var record = record
        record.clean = nil
        record = try tagged(record)
        try replaceRecord(of: file, node, by: record)
        if options.layout.flushesMarks { try file.synchronize(dataOnly: false) }
        return .rewrapped(record)
      }
    }
  }

  // MARK: Clean again

  /// A file that was closed becomes clean so much later: one flush of the file system serves all of that time.
  private static let cleaningDelay = Duration.seconds(30)
  /// With so many it is done at once. Up to twice as many are kept.
  private static let mostClosed = 16_384

  /// Pins the node of a file that is closed, if it may be made clean: with other writers none is, nor after a flush has
  /// failed, which does not say what was lost.
  func pinToClean(_ node: Node) -> Node? {
    guard options.layout.isAuthenticated, options.writers == .sole, maySayClean.load(ordering: .acquiring) else {
      return nil
    }
    return nodes.keep(node)
  }

  /// Notes a file that is closed, to be made clean if it was changed. The caller holds the node's lock. Returns whether
  /// the pin is taken.
  func noteClosed(_ file: ProtectedFile, of node: Node) -> Bool {
    guard file.isChanged, file.record.clean == nil, !file.hasLost else { return false }
    let closed = ClosedFile(node, file.cleanContents)
    let (isNew, count) = closedFiles.withLock { files -> (Bool, Int) in
      let isNew = files[ObjectIdentifier(node)] == nil
      guard !isNew || files.count < 2 * Self.mostClosed else { return (false, 0) }
      files[ObjectIdentifier(node)] = closed
      return (isNew, files.count)
    }
    guard isNew else { return false }
    switch count {
    case 1: rekeys.clean(at: MonotonicClock.now + Self.cleaningDelay)
    case Self.mostClosed: rekeys.clean(at: MonotonicClock.now)
    default: break
    }
    return true
  }

  /// What is known of the contents of a file that was closed and is not clean.
  func closedContents(of node: Node) -> CleanContents? {
    options.layout.isAuthenticated ? closedFiles.withLock { $0[ObjectIdentifier(node)]?.contents } : nil
  }

  /// Forgets a file that is about to change, or loses its last name: pinned, that would keep its room.
  ///
  /// - Parameter closed: what is forgotten; by default whatever is there.
  func forgetClosed(_ node: Node, _ closed: ClosedFile? = nil) {
    guard options.layout.isAuthenticated else { return }
    let isForgotten = closedFiles.withLock { files in
      guard let file = files[ObjectIdentifier(node)], closed == nil || file === closed else { return false }
      files[ObjectIdentifier(node)] = nil
      return true
    }
    if isForgotten { nodes.forget(node, count: 1) }
  }

  /// How long files are synchronised each, where that must be. The others stay unclean.
  private static let mostCleaning = Duration.seconds(10)

  /// Makes the files clean that were closed, once their contents are durable.
  package func cleanClosedFiles() {
    let files = closedFiles.withLock { $0 }
    if files.isEmpty { return }
    do throws(Errno) { try flushing?.descriptor.writeFileSystemBack() } catch { endCleaning(after: error) }
    let end = MonotonicClock.now + Self.mostCleaning
    for file in files.values {
      let hasTime = isSynchronizedWhole || MonotonicClock.now < end
      if hasTime, maySayClean.load(ordering: .acquiring) { makeClean(file) }
      forgetClosed(file.node, file)
    }
    // What was closed meanwhile.
    if closedFiles.withLock({ !$0.isEmpty }) { rekeys.clean(at: MonotonicClock.now + Self.cleaningDelay) }
  }

  private func endCleaning(after error: Errno) {
    maySayClean.store(false, ordering: .releasing)
    log.warning(
      "the store cannot be flushed: no more files are marked as clean until it is mounted again",
      metadata: ["error": "\(error)"])
  }

  /// Makes a file clean whose contents are durable, unless it has changed since.
  private func makeClean(_ closed: ClosedFile) {
    let node = closed.node
    do throws(Errno) {
      let reference = try reference(to: node)
      if !isSynchronizedWhole {
        do throws(Errno) {
          try reference.withDescriptor(synchronize)
        } catch {
          if error == .ioError || error.isOutOfSpace { endCleaning(after: error) }
          throw error
        }
      }
      try keyChanges.write { () throws(Errno) in
        guard closedFiles.withLock({ $0[ObjectIdentifier(node)] === closed }) else { return }
        // A program may have it open; and what failed may have been carried out.
        defer { do throws(Errno) { try renewRecordInMemory(of: node) } catch { node.file?.refuse() } }
        try reference.withDescriptor { (path) throws(Errno) in
          var record = try verifiedFileRecord(recordBytes(of: path), of: node, path)
          let size = options.layout.backingLength(for: closed.contents.length)
          guard record.clean == nil, try path.status().size == size else { return }
          record.clean = closed.contents
          try setRecord(tagged(record).bytes, of: path)
        }
      }
    } catch {
      log.debug(
        "a file that was closed stays unclean", metadata: ["inode": "\(node.identity.inode)", "error": "\(error)"])
    }
  }
}
