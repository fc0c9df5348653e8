import FileProtection
import ProtectfsIO
import SystemPackage

// What failed midway: the files are given back what they had, or nobody may use them until that has been done.
extension RekeyEngine {
  /// Gives the files that failed the ciphertext that they had, and takes the batch out of the journal, when the others are
  /// safe. Where that fails too, nobody may change them until it has been done, or the batch was carried out by the next mount.
  func takeBack(_ jobs: inout [Job]) {
    let failed = jobs.filter { $0.failure != nil && $0.isWritten }
    guard !failed.isEmpty, !putBack(failed, of: jobs, in: slot) else { return }
    strand(failed)
  }

  func withdraw(_ jobs: [Job]) {
    do throws(Errno) { try journal.clear(slot) } catch { strand(jobs) }
  }

  /// Where a new record was refused, the old one must be there: with one of which nothing is known the new contents are
  /// right, or are put right by the next mount.
  func putBack(_ failed: [Job], of jobs: [Job], in slot: Int) -> Bool {
    do throws(Errno) {
      for job in failed {
        let stored = try job.file.withDescriptor { (descriptor) throws(Errno) in
          try descriptor.attribute(BackingTree.recordAttribute)
        }
        guard stored == job.file.record.bytes else { return false }
        try job.file.undo(job.step)
      }
      try synchronize(jobs)
      try journal.clear(slot)
      return true
    } catch {
      return false
    }
  }

  func strand(_ jobs: [Job]) {
    stranded = (jobs, slot)
    for job in jobs {
      job.file.abandonContents()
      tree.damaged(job.node, "a rekey failed midway and could not be taken back yet; this is tried again")
    }
  }

  /// Tries once more to take back what could not be. Returns whether the engine can go on.
  func rescue() -> Bool {
    guard let (jobs, slot) = stranded else { return !isHalted }
    for job in jobs { job.file.beginRekeyStep() }
    let isDone = putBack(jobs, of: jobs, in: slot)
    for job in jobs { job.file.endRekeyStep() }
    guard isDone else { return false }
    stranded = nil
    for job in jobs {
      job.file.resumeContents()
      tree.close(job.file, of: job.node, wasWriter: true)
    }
    return !isHalted
  }
}
