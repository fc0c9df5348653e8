import FileProtection
import ProtectfsIO
import SystemPackage

// Failures midway: the files get their previous contents back, or they cannot be used until that has been done.
extension RekeyEngine {
  /// Gives the files that failed their previous ciphertext, and removes the batch from the journal once the other files
  /// are safe. If that fails too, the files cannot be changed until it succeeds or the next mount replays the batch.
  func takeBack(_ jobs: inout [Job]) {
    let failed = jobs.filter { $0.failure != nil && $0.isWritten }
    if !failed.isEmpty, !putBack(failed, of: jobs, in: slot) { strand(failed) }
  }

  /// Takes a batch out of the journal whose files were not written. If that fails, the files wait for it.
  func clearSlotOrStrand(_ jobs: [Job]) {
    do throws(Errno) { try journal.clear(slot) } catch { strand(jobs) }
  }

  /// If a new record was refused, the old record must be there. If it was unknown which of them is, that is read here.
  /// If the record is still unknown, the new contents are correct, or the next mount makes them so.
  func putBack(_ failed: [Job], of jobs: [Job], in slot: Int) -> Bool {
    do throws(Errno) {
      for job in failed {
        let bytes = try tree.recordBytes(of: job.file)
        if job.file.isRefused {
          let record = try job.file.withDescriptor { (file) throws(Errno) in
            try tree.verifiedFileRecord(bytes, of: job.node, file)
          }
          job.file.adopt(record, isOwn: true)
        }
        guard bytes == job.file.record.bytes else { return false }
        // An open may have read the new record since, which is there in spite of an error: then the contents are right.
        guard job.step.begins(at: job.file.record) else { continue }
        try tree.holdingPrivileges(of: job.node) { () throws(Errno) in try job.file.undo(job.step) }
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

  /// Tries once more to undo a batch. Returns whether the engine can continue.
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
