import FileProtection
import ProtectfsIO
import StoreFormat
import SystemPackage

// The end of a step for a file, of a batch whose records become durable, of a search, and of the mount.
extension RekeyEngine {
  /// Handles the end of a file's step, whose lock was released. The file's handle is closed when its record is durable.
  func conclude(_ job: Job) {
    if let failure = job.failure {
      finish(job.node, after: failure)
      if !job.file.isAbandoned { tree.close(job.file, of: job.node, wasWriter: true) }
    } else if job.file.record.pending != nil {
      keepStarted(job)
      again(job.node)
    } else {
      rest(job.node, hasShifted: true)
      closeStarted(job.node)
      finish(job.node)
    }
  }

  /// Keeps a file open whose next step comes with a later batch, if there was a first one.
  private func keepStarted(_ job: Job) {
    let id = ObjectIdentifier(job.node)
    guard job.file.isRekeyed, started[id] == nil else { return }
    tree.addHandle(of: job.node)
    started[id] = (job.node, job.file)
  }

  /// Closes a file whose rekey is done or deferred.
  func closeStarted(_ node: Node) {
    guard let (_, file) = started[ObjectIdentifier(node)], !file.isAbandoned else { return }
    started[ObjectIdentifier(node)] = nil
    tree.close(file, of: node, wasWriter: true)
  }

  private func again(_ node: Node) {
    rekeys.finish(node, started[ObjectIdentifier(node)] == nil ? .again : .started)
  }

  /// Gives a file that is no longer being rekeyed its modification time: on disk another than before, and the same for
  /// users.
  ///
  /// - Parameter hasShifted: whether the record was given another time shift already, unless there was none left.
  func rest(_ node: Node, hasShifted: Bool = false) {
    guard let file = node.file, file.isRekeyed else { return }
    let isShifted = hasShifted ? file.record.timeShift != nil : shiftTime(of: file, node)
    // With other writers the kernel keeps no time, and sends none of its own accord.
    let isKept = tree.options.writers == .sole
    file.restAfterRekey(isShifted: isShifted) { if isKept { node.movedTime(from: $0, to: $1) } }
    tree.applyModificationTime(of: file)
  }

  /// Gives the record of a file whose rekey is deferred another time shift. Returns whether it has.
  private func shiftTime(of file: ProtectedFile, _ node: Node) -> Bool {
    guard file.beginRekeyStep(until: MonotonicClock.nanoseconds + Self.patience) else { return false }
    defer { file.endRekeyStep() }
    var record = file.record
    record.timeShift = tree.nextTimeShift(of: file)
    guard record.timeShift != nil, !file.isRefused, !file.isAbandoned else { return false }
    do throws(Errno) {
      let next = try tree.tagged(record)
      try tree.replaceRecord(of: file, node, by: next)
      file.moveRekey(to: next)
      return true
    } catch {
      // Users then see a time that is a second later.
      return false
    }
  }

  func finish(_ node: Node) {
    rekeys.finish(node, .done)
    // A rekey that was requested just before found the file in the queue.
    if let file = node.file { tree.awaitRekey(of: node, file) }
    tree.nodes.forget(node, count: 1)
  }

  /// Ends the rekey of a file whose class key has ended: nothing can be done for it, however often it is tried.
  private func giveUp(_ node: Node) {
    rekeys.finish(node, .done)
    tree.nodes.forget(node, count: 1)
  }

  func finish(_ node: Node, after error: Errno) {
    // There was no room in the batch.
    if error == .wouldBlock { return again(node) }
    rest(node)
    closeStarted(node)
    switch error {
    case .keyRevoked, .noKey:
      giveUp(node)
    case .noSuchFileOrDirectory, .staleNFSFileHandle:
      // Removed meanwhile, or in a directory that was moved since it was found.
      finish(node)
      rekeys.search()
    case .permissionDenied where !tree.isAvailable(node):
      rekeys.finish(node, .withoutKey)
      // An unlock may have happened just before.
      if tree.isAvailable(node) { rekeys.resume() }
    default:
      if logged.count < Self.mostLogged, logged.insert(node.identity.inode).inserted {
        tree.log.warning(
          "a file keeps its old key for now; this is tried again",
          metadata: ["error": "\(error)", "inode": "\(node.identity.inode)"])
      }
      rekeys.finish(node, stranded == nil ? .failed : .stranded)
    }
  }

  // MARK: Durability

  func synchronize(_ jobs: [Job]) throws(Errno) {
    guard jobs.count > Self.mostSynchronizedAlone, tree.isSynchronizedWhole else {
      for job in jobs { try job.file.synchronize(dataOnly: false) }
      return
    }
    try tree.root.descriptor.synchronizeFileSystem()
  }

  /// Makes the records of the batch in a slot durable, so that the slot may be overwritten.
  func makeRecordsDurable(of slot: Int) throws(Errno) {
    try synchronize(undurable[slot])
    durable += undurable[slot]
    undurable[slot] = []
  }

  /// Closes files whose records are durable. With no contents lock held: a file's modification time is set before.
  func closeDurable() {
    for job in durable {
      tree.close(job.file, of: job.node, wasWriter: true)
      tree.nodes.forget(job.node, count: 1)
    }
    durable = []
  }

  /// Makes the records durable and empties the journal when there is nothing else to do.
  func makeRecordsDurable() {
    guard rescue(), tree.unreplayed.isEmpty else { return rekeys.recordsAreDurable(hasFailed: true) }
    room = RekeyBatch.mostCiphertext
    var hasFailed = false
    for slot in 0...1 {
      do throws(Errno) {
        try makeRecordsDurable(of: slot)
        if journal.isThere { try journal.clear(slot) }
      } catch {
        hasFailed = true
        tree.log.warning("the journal of rekeys was not emptied", metadata: ["error": "\(error)"])
      }
    }
    closeDurable()
    rekeys.recordsAreDurable(hasFailed: hasFailed)
  }

  func search() {
    let search = RekeySearch(tree) { [rekeys] in !rekeys.isStopping }
    search.run()
    rekeys.endSearch(isComplete: search.isComplete)
    guard search.isComplete, !tree.unreplayed.isEmpty else { return }
    do throws(Errno) {
      try tree.root.descriptor.synchronizeFileSystem()
      tree.unreplayed.removeAll()
      for slot in 0...1 { try journal.clear(slot) }
    } catch {
      isHalted = true
      tree.log.error("the journal of rekeys was not emptied", metadata: ["error": "\(error)"])
    }
  }

  /// Handles the end of the mount.
  func end() {
    tree.keyChanges.read {
      for job in undurable.joined() { rest(job.node) }
      for (node, _) in started.values { rest(node) }
    }
    for (node, _) in started.values { closeStarted(node) }
    makeRecordsDurable()
    let status = rekeys.status
    guard stranded == nil, !isHalted, status.pending == 0, status.isComplete, undurable.allSatisfy(\.isEmpty),
      journal.isThere
    else {
      return
    }
    do throws(Errno) {
      try journal.remove()
    } catch {
      tree.log.warning("the journal of rekeys was not removed", metadata: ["error": "\(error)"])
    }
  }
}
