import FUSE
import FileSystem
import KeyManagement
import Logging
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// What a lock does to the classes that it takes away.
protocol ClassLocking {
  /// How long the backing store is waited for without any progress.
  var patience: Duration { get }
  /// Takes classes away from everyone; see ``LockSequence/run(_:evictingOpenFiles:)``.
  mutating func run(_ classes: [ProtectionClass], evictingOpenFiles: Bool) -> LockOutcome
  /// Has the kernel drop its pages of locked files that are open for writing, and does not wait for it.
  mutating func dropLateWrites() -> LateWrites
  /// Has the kernel drop its pages of files, and does not wait for it.
  func drop(_ nodes: [NodeID])
  /// Logs what a lock has left undone.
  func report(_ outcome: LockOutcome)
}

/// Whether files of locked classes may still get pages from a write(2) that began before the lock.
enum LateWrites {
  /// None is open for writing.
  case none
  /// A write(2) may have looked at the attributes, and not begun to copy.
  case possible
  /// One has begun, and has not ended.
  case underWay
}

/// Takes classes away from everyone: open files, mappings, the kernel's page cache, and the daemon's own memory.
///
/// Runs on a thread of its own, and holds no lock that a request handler takes: the kernel answers an invalidation only
/// when the handlers have taken the dirty pages (libfuse, `fuse_lowlevel_notify_inval_inode`). It waits for the backing
/// store only as long as that makes progress, now and then.
struct LockSequence: ClassLocking {
  let fileSystem: ProtectedFileSystem
  let session: Session
  let mountPoint: String
  let controller: LockController
  let pages: PageInvalidation
  /// What the kernel did not do of that.
  let failures = InvalidationFailures()
  /// What waits for calls of write(2) that have begun.
  let writes: PageInvalidation
  /// Those that have outlasted a lock.
  var lateWrites: [InvalidationBatch] = []
  /// Classes whose open files went with them when they were locked last.
  var evicted: Set<ProtectionClass> = []
  /// The last pages that ``dropLateWrites()`` has begun to drop.
  var lateDrop: InvalidationBatch?
  /// How long to wait for the backing store from the last write-back that completed.
  let patience: Duration
  let log: Logger

  init(
    fileSystem: ProtectedFileSystem, session: Session, mountPoint: String, controller: LockController,
    patience: Duration, log: Logger
  ) {
    self.fileSystem = fileSystem
    self.session = session
    self.mountPoint = mountPoint
    self.controller = controller
    self.patience = patience
    self.log = log
    // What these threads wait for may outlast the daemon, whose descriptors are not to stay open with them. They log
    // nothing: that takes descriptors.
    let failures = self.failures
    pages = PageInvalidation(prepare: { session.isolateThread() }) { (node, _) in
      do throws(Errno) { try session.invalidate(node) } catch { failures.note(error) }
    }
    writes = PageInvalidation(prepare: { session.isolateThread(keepsConnection: !Session.waitsByPath) }) {
      session.awaitWrites(to: $0, at: $1)
    }
  }

  /// Lets the threads end that wait.
  func stop() {
    pages.stop()
    writes.stop()
  }

  /// Locks the classes. When this returns, no page of a class whose key went whole is with the kernel, no key of it
  /// is in memory, and every request on its contents is refused. What a store that does not answer has kept it from is
  /// returned.
  ///
  /// Class B keeps its public key, and its open files their own keys, unless `evictingOpenFiles`.
  mutating func run(_ classes: [ProtectionClass], evictingOpenFiles: Bool) -> LockOutcome {
    let whole = evictingOpenFiles ? classes : classes.filter { !$0.keepsOpenFiles }
    evicted = evicted.subtracting(classes).union(whole)
    // Where others write the store, what they have put into a class is found.
    let stale = fileSystem.renewRecords(within: patience)
    var outcome = LockOutcome()

    // 1. Refuse open, read, resize and attributes. WRITE is still taken: it carries what programs wrote before.
    for fileClass in classes {
      controller.setAvailability(whole.contains(fileClass) ? .revoking : .publicOnly, of: fileClass)
    }
    let closed = Set(whole.flatMap { fileSystem.cachedNodes(in: $0, includingOpen: false) })
    // 2. The kernel writes the dirty pages back, drops all pages, mapped ones too, and forgets the attributes, so that
    //    the next write(2) asks first. From a store that does not answer nothing more is hoped for.
    let unpushed = push(classes, whole: whole, stale: stale, &outcome)
    if !unpushed.isEmpty {
      let written = Set(whole.flatMap { fileSystem.writtenNodes(in: $0) })
      note(unpushed.filter(written.contains), of: whole, in: &outcome.unwritten)
    }
    // 3. Refuse WRITE too; requests in flight end, then the keys of open files go, then the class key. Those that have
    //    not ended are answered all the same.
    for fileClass in whole { controller.setAvailability(.unavailable, of: fileClass) }
    let isStuck = !evictKeys(of: whole, waiting: unpushed.isEmpty) || !unpushed.isEmpty
    for fileClass in classes { controller.wipe(fileClass) }
    if isStuck { refuseUnanswered(of: whole, &outcome) }
    for (inode, failure) in fileSystem.takeFailedPushes() {
      outcome.failed[LockOutcome.File(inode: inode, fileClass: failure.fileClass)] = failure.error
    }
    // 4. Drop what was read or dirtied between 2 and 3, or came into the class; also by a write(2) that had begun.
    awaitWrites(to: whole, &outcome)
    drop(whole, closed: closed, isStuck: isStuck, &outcome)
    // What was not pushed may have kept its pages, also of closed files and of those of class B.
    if !unpushed.isEmpty { note(finish(pages.begin(unpushed), progress: { 0 }), of: classes, in: &outcome.undropped) }
    return outcome
  }

  func drop(_ nodes: [NodeID]) {
    _ = pages.begin(nodes)
  }

  /// Returns the nodes whose pages were not written back in time.
  private mutating func push(
    _ classes: [ProtectionClass], whole: [ProtectionClass], stale: [NodeID], _ outcome: inout LockOutcome
  ) -> [NodeID] {
    // First those whose pages need not be written back: they are readable until they are dropped, and that waits for
    // nothing. Roughly in the order in which they came to be known, in which the kernel has them and their pages too.
    let written = Set(whole.flatMap { fileSystem.writtenNodes(in: $0) })
    let cached = classes.flatMap { fileClass in
      fileSystem.cachedNodes(in: fileClass, includingOpen: whole.contains(fileClass)).sorted {
        $0.rawValue < $1.rawValue
      }
    }
    let nodes = cached.filter { !written.contains($0) } + cached.filter(written.contains)
    let unpushed = finish(pages.begin(nodes + stale), progress: { fileSystem.completedPushes })
    return unpushed.isEmpty ? finishWrites(to: whole, &outcome) : unpushed
  }

  /// A write(2) that had looked at the attributes before the kernel forgot them may make pages dirty after they were
  /// written back. It is waited for, and what it left is fetched while that is still accepted. One that had not begun
  /// to copy gets time for that, until two passes bring nothing. No invalidation finds copies of pages.
  private mutating func finishWrites(to classes: [ProtectionClass], _ outcome: inout LockOutcome) -> [NodeID] {
    awaitWrites(to: classes, &outcome)
    let end = MonotonicClock.nanoseconds + patience.inNanoseconds
    var (passes, quiet) = (0, 0)
    while passes < Self.mostPasses, quiet < 2 {
      let nodes = classes.flatMap { fileSystem.writtenNodes(in: $0) }
      let completed = fileSystem.completedPushes
      if nodes.isEmpty { break }
      MonotonicClock.sleep(microseconds: Self.timeToFinish)
      let unpushed = finish(pages.begin(nodes), progress: { fileSystem.completedPushes })
      if !unpushed.isEmpty { return unpushed }
      let uncopied = session.awaitCopies(of: Set(nodes), patience: patience, atMost: patience * Self.mostPasses)
      if !uncopied.isEmpty { return Array(uncopied) }
      if !Session.copiesPages, MonotonicClock.nanoseconds >= end { break }
      passes += 1
      quiet = fileSystem.completedPushes == completed ? quiet + 1 : 0
    }
    return []
  }

  private static let mostPasses = 16
  /// What a write(2) that has looked at the attributes is given to begin, in microseconds.
  private static let timeToFinish: UInt32 = 4000

  /// Wipes the keys of open files. Returns whether all operations with them had ended.
  private func evictKeys(of classes: [ProtectionClass], waiting: Bool) -> Bool {
    let end = MonotonicClock.nanoseconds + (waiting ? patience.inNanoseconds : 0)
    return classes.map { fileSystem.evictKeys(of: $0, until: end) }.allSatisfy { $0 }
  }
}
