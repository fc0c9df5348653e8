import Contents
import FileProtection
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// Re-encrypts the contents of files under their new keys, in place, on a thread of its own.
///
/// A batch of files goes through the steps that ARCHITECTURE.md, "Rekey", has. Each is durable before the next:
/// 1. the next ciphertext, in memory: nothing on disk;
/// 2. the files with the records of the pending rekeys; then the new ciphertext, in the journal;
/// 3. the new ciphertext in the files, over the old, and the files' extended attributes;
/// 4. the records, with a new boundary or without the old key. The journal keeps the batch until they are durable.
///
/// From 1 to 4 the engine holds the contents locks of the files exclusively.
package final class RekeyEngine {
  let tree: BackingTree
  var rekeys: RekeyQueue { tree.rekeys }
  var journal: RekeyJournal { tree.rekeyJournal }
  var slot = 0
  /// By slot, the files whose records may not be durable yet. They are kept open, so that a caller that synchronises
  /// one of them makes its record durable too.
  var undurable: [[Job]] = [[], []]
  /// Files whose records are durable, to be closed when no contents lock is held.
  var durable: [Job] = []
  /// The maximum ciphertext of a batch in bytes; less if the disk has little room.
  var room = RekeyBatch.mostCiphertext
  private static let leastRoom = 1 << 16
  /// Files that are encrypted anew in part, by their nodes. They are kept open: their modification times are known only
  /// while they are.
  var started: [ObjectIdentifier: (node: Node, file: ProtectedFile)] = [:]
  /// If there are so many, only files that are done in one step are begun.
  private static let mostStarted = 4
  /// A batch that could be neither carried out nor undone, and its slot.
  var stranded: (jobs: [Job], slot: Int)?
  /// The previous mount's journal could not be emptied. Pending rekeys are left to the next mount.
  var isHalted = false
  /// The inode numbers of files whose failure was logged.
  var logged: Set<UInt64> = []
  static let mostLogged = 1000

  /// Up to this number, files are synchronised one by one; for more, the whole file system is.
  static let mostSynchronizedAlone = 8
  /// How long a batch waits for operations on its files, in nanoseconds.
  static let patience: Int64 = 250_000_000
  /// How long it waits for those on each file at least.
  private static let leastPatience: Int64 = 2_000_000

  /// A file in a batch.
  struct Job {
    let node: Node
    let file: ProtectedFile
    var step: RekeyStep
    /// The contents lock is held, and something may have been written.
    var isWritten = false
    /// Only the record is left to write.
    var isFinished = false
    var failure: Errno?
  }

  package init(_ tree: BackingTree) {
    self.tree = tree
    if tree.rekeyJournal.isThere { tree.rekeys.search() }
  }

  /// The body of the engine's thread. Works until ``BackingTree/stopRekeys()``.
  package func run() {
    while perform(rekeys.next()) {}
    end()
  }

  /// Does what there is to do now, on the calling thread.
  package func runOnce() {
    while let work = rekeys.nextAtOnce(), perform(work) {}
  }

  /// Returns whether there may be more.
  private func perform(_ work: RekeyQueue.Work) -> Bool {
    switch work {
    case .rekey(let nodes): rekey(nodes)
    case .clean: tree.cleanClosedFiles()
    case .search: search()
    case .rest: makeRecordsDurable()
    case .stop: return false
    }
    return true
  }

  // MARK: A batch

  private func rekey(_ nodes: [Node]) {
    guard rescue(), tree.unreplayed.isEmpty else {
      tree.keyChanges.read {
        for node in nodes {
          // The key of a class that was locked goes with the file.
          if !tree.isAvailable(node) {
            rest(node)
            closeStarted(node)
          }
          rekeys.finish(node, stranded == nil ? .failed : .stranded)
        }
      }
      return
    }
    let files = nodes.compactMap(open)
    tree.keyChanges.read {
      var (jobs, failed) = prepare(files)
      carryOut(&jobs)
      for job in jobs { job.file.endRekeyStep() }
      // Files whose lock was not free go last in the next batch; so, among those that are done in part, do those that
      // had a step.
      let others = failed.filter { started[ObjectIdentifier($0.node)] == nil }
      failed.removeAll { started[ObjectIdentifier($0.node)] == nil }
      for job in failed + jobs + others { conclude(job) }
      closeDurable()
    }
  }

  private func open(_ node: Node) -> Job? {
    do throws(Errno) {
      return Job(node: node, file: try tree.openFile(node, forWriting: true), step: RekeyStep())
    } catch {
      tree.keyChanges.read { finish(node, after: error) }
      return nil
    }
  }

  /// Takes the contents locks one after the other and prepares the next ciphertext of each file, as far as there is
  /// room. The files for which that fails are returned without their locks; so are those with an operation that lasts,
  /// since everyone who uses the other files would wait for it.
  private func prepare(_ files: [Job]) -> (ready: [Job], failed: [Job]) {
    var room = room
    var chunks = RekeyBatch.chunkCount.upperBound
    var (jobs, failed): ([Job], [Job]) = ([], [])
    let end = MonotonicClock.nanoseconds + Self.patience
    for var job in files {
      guard job.file.beginRekeyStep(until: max(end, MonotonicClock.nanoseconds + Self.leastPatience)) else {
        job.failure = .wouldBlock
        failed.append(job)
        continue
      }
      do throws(Errno) {
        guard
          started[ObjectIdentifier(job.node)] != nil || started.count < Self.mostStarted
            || job.file.isRekeyed(within: room)
        else { throw Errno.wouldBlock }
        job.step = try job.file.prepareRekeyStep(room: room, mostChunks: chunks)
        if job.step.isDeferred { throw Errno.wouldBlock }
        room -= job.step.count
        chunks -= job.step.chunks.count
        jobs.append(job)
      } catch {
        job.file.endRekeyStep()
        job.failure = error
        failed.append(job)
      }
    }
    return (jobs, failed)
  }

  private func carryOut(_ jobs: inout [Job]) {
    let chunks = jobs.flatMap(\.step.chunks)
    do throws(Errno) {
      if !chunks.isEmpty {
        try makeRecordsDurable(of: slot)
        try begin(chunks, jobs)
      }
      for index in jobs.indices { write(&jobs[index]) }
      try synchronize(jobs.filter { $0.failure == nil && ($0.isWritten || $0.isFinished) })
      for index in jobs.indices where jobs[index].failure == nil { moveRecord(&jobs[index]) }
    } catch {
      let error = reduceRoom(after: error) ? .wouldBlock : error
      for index in jobs.indices where jobs[index].failure == nil { jobs[index].failure = error }
    }
    synchronizeSteps(&jobs)
    takeBack(&jobs)
    for job in jobs where job.failure == nil {
      _ = tree.nodes.keep(job.node)
      undurable[slot].append(job)
    }
    if !chunks.isEmpty { slot = 1 - slot }
  }

  /// Makes the records of steps without chunks durable. No batch in the journal moves them after a power cut, and data
  /// that is written in place may come before them.
  private func synchronizeSteps(_ jobs: inout [Job]) {
    for index in jobs.indices where jobs[index].failure == nil && jobs[index].step.chunks.isEmpty {
      do throws(Errno) {
        try jobs[index].file.synchronize(dataOnly: false)
      } catch {
        jobs[index].failure = error
      }
    }
  }

  /// Whether a batch that failed for want of room may be tried again at once with less. The journal then frees its
  /// space.
  private func reduceRoom(after error: Errno) -> Bool {
    guard error.isOutOfSpace, room > Self.leastRoom else { return false }
    room = max(room / 8, Self.leastRoom)
    let other = 1 - slot
    do throws(Errno) {
      try makeRecordsDurable(of: other)
      try journal.clear(other)
      return true
    } catch {
      return false
    }
  }

  /// Writes the batch to the journal. The files are durable before that: of one that was cut, a batch for what is left
  /// must not meet the longer contents from before. If it fails, the journal must not contain the batch: it would undo
  /// what is written to the files from now on.
  private func begin(_ chunks: [RekeyBatch.Chunk], _ jobs: [Job]) throws(Errno) {
    try synchronize(jobs)
    do throws(Errno) {
      try journal.write(chunks, to: slot)
      try journal.synchronize(slot)
    } catch {
      clearSlotOrStrand(jobs)
      throw error
    }
  }

  private func write(_ job: inout Job) {
    do throws(Errno) {
      if !job.step.chunks.isEmpty {
        job.isWritten = true
        // Others may have written the file since it was opened.
        if tree.options.writers != .sole, !job.file.isRekeyed { job.file.adoptModificationTime() }
        try tree.holdingPrivileges(of: job.node) { () throws(Errno) in try job.file.write(job.step) }
      }
      guard job.step.boundary == nil else { return }
      try tree.rekeyAttributes(of: job.file, job.node)
      job.isFinished = true
    } catch {
      job.failure = error
    }
  }

  /// Writes the record that a step leads to.
  private func moveRecord(_ job: inout Job) {
    let record = job.file.record
    guard let pending = record.pending else { return }
    do throws(Errno) {
      if job.isFinished, pending.isFollowed {
        let (next, cipher) = try tree.followingRekey(record)
        try tree.replaceRecord(of: job.file, job.node, by: next)
        return job.file.replaceKey(next, cipher)
      }
      var next = record
      if job.isFinished {
        next.pending = nil
        next.timeShift = tree.nextTimeShift(of: job.file)
      } else if let boundary = job.step.boundary {
        next.pending?.boundary = boundary
      }
      next = try tree.tagged(next)
      try tree.replaceRecord(of: job.file, job.node, by: next)
      job.file.moveRekey(to: next)
    } catch {
      job.failure = error
    }
  }
}
