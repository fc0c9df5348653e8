import FUSE
import FileSystem
import ProtectfsIO
import ProtectfsPolicy

// The parts of a lock that have to do with a store that does not answer.
extension LockSequence {
  /// How long to wait between two looks at what has been done, in microseconds.
  private static let tick: Int64 = 10_000
  /// After so much of its patience another thread tries other files: it may be this one only that hangs.
  private static let helpers = 16
  /// For how many times its patience threads may drop pages of files without having done with one.
  private static let mostWork: Int64 = 4
  /// The longest that the kernel keeps a write(2) waiting for others' pages to be written (`MAX_PAUSE` in
  /// mm/page-writeback.c is 200 ms), in microseconds.
  private static let pause: UInt32 = 250_000
  private static let mostDrops = 40

  /// Waits until a batch is done, or nothing has been for as long as patience lasts; returns what is not done then.
  /// `attend` is called each time that nothing was done in a tick. While threads drop the pages of large files, this
  /// waits for several times its patience: they have a processor, and one that waits for the store has not.
  func finish(
    _ batch: InvalidationBatch, progress: () -> Int, attend: () -> Void = {}
  ) -> [NodeID] {
    let patience = patience.inNanoseconds
    var seen = progress() &+ batch.completed
    var worked = batch.processorTime
    var since = MonotonicClock.nanoseconds
    var lastWork = since
    var helpers: Int64 = 0
    while !batch.wait(microseconds: Self.tick) {
      let now = MonotonicClock.nanoseconds
      let (current, time) = (progress() &+ batch.completed, batch.processorTime)
      if time != worked { (worked, lastWork) = (time, now) }
      if current != seen {
        (seen, since, helpers) = (current, now, 0)
        continue
      }
      if now - max(since, lastWork) >= patience || now - since >= Self.mostWork * patience { return batch.giveUp() }
      attend()
      if now - since > (helpers + 1) * patience / Int64(Self.helpers) {
        helpers += 1
        pages.help(batch)
      }
    }
    return []
  }

  /// Answers the requests on contents of classes that workers are stuck with, or that were put off: until they have
  /// their answers the kernel cannot drop their pages. What they were answered with data before, it drops with them:
  /// the pages of a read are locked until then.
  func refuseUnanswered(of classes: [ProtectionClass], _ outcome: inout LockOutcome) {
    let requests = session.unanswered
    guard !requests.isEmpty else { return }
    // Looked at after the requests: a node that is one of these, and whose request is still there, was one all the
    // time.
    let files = files(of: classes)
    for request in requests {
      guard let file = files[request.header.node], session.refuse(request) else { continue }
      if request.header.contents == .write { outcome.unwritten.insert(file) }
    }
  }

  /// Drops the pages of files of the classes, until no write(2) makes more of them. A file that was closed when the
  /// lock began got no pages then: the kernel releases a handle after the last read, write and mapping through it.
  func drop(
    _ classes: [ProtectionClass], closed: Set<NodeID>, isStuck: Bool, _ outcome: inout LockOutcome
  ) {
    for pass in 0..<Self.mostDrops {
      // A write(2) that had begun goes on when what it wrote before has its answer.
      if isStuck, pass > 0 { MonotonicClock.sleep(microseconds: Self.pause) }
      let refused = fileSystem.refusedWriteBacks
      let nodes = classes.flatMap { fileClass in
        fileSystem.cachedNodes(in: fileClass, includingOpen: true).filter { !closed.contains($0) }
          + fileSystem.openNodes(in: fileClass).filter { closed.contains($0) }
      }
      let undropped = finish(
        pages.begin(nodes), progress: { fileSystem.refusedWriteBacks },
        attend: { refuseUnanswered(of: classes, &outcome) })
      note(undropped, of: classes, in: &outcome.undropped)
      if !undropped.isEmpty { return }
      if fileSystem.refusedWriteBacks == refused, !isStuck || pass > 0 { return }
    }
  }

  /// Notes the files of nodes that are of the classes still.
  func note(_ nodes: [NodeID], of classes: [ProtectionClass], in noted: inout Set<LockOutcome.File>) {
    guard !nodes.isEmpty else { return }
    let files = files(of: classes)
    noted.formUnion(nodes.compactMap { files[$0] })
  }

  private func files(of classes: [ProtectionClass]) -> [NodeID: LockOutcome.File] {
    var files: [NodeID: LockOutcome.File] = [:]
    for fileClass in classes {
      for (node, inode) in fileSystem.inodes(in: fileClass) {
        files[NodeID(rawValue: node)] = LockOutcome.File(inode: inode, fileClass: fileClass)
      }
    }
    return files
  }

  func report(_ outcome: LockOutcome) {
    failures.report(to: log)
    report(outcome.unwritten, "a file may have lost writes: the backing store did not answer")
    for (file, error) in outcome.failed.sorted(by: { $0.key.inode < $1.key.inode }) {
      log.error(
        "writes to a file are lost: the backing store failed",
        metadata: ["inode": "\(file.inode)", "class": "\(file.fileClass.name)", "error": "\(error)"])
    }
    report(outcome.undropped, "the kernel has not dropped a file's pages: the backing store did not answer")
    report(outcome.beingWritten, "a write that was under way outlasts the lock, and its pages are dropped again")
    if outcome.keepsKeybagKey { log.error("a rotation has the keybag's key: the backing store did not answer") }
  }

  private func report(_ files: Set<LockOutcome.File>, _ message: String) {
    for file in files.sorted(by: { $0.inode < $1.inode }) {
      log.error("\(message)", metadata: ["inode": "\(file.inode)", "class": "\(file.fileClass.name)"])
    }
  }
}
