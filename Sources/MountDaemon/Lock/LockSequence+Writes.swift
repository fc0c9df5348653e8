import FUSE
import FileSystem
import ProtectfsIO
import ProtectfsPolicy

// The parts of a lock that have to do with calls of write(2) that had begun: the kernel has looked at the attributes
// for them, and asks no more until they have filled the page cache. One may last, since its thread gets no processor or
// its source is not in memory.
extension LockSequence {
  /// How long to wait between two looks, in microseconds.
  private static let tick: Int64 = 10_000
  /// The part of the patience that such a write is waited for.
  private static let share: Int64 = 5

  /// Waits until the writes to files of the classes have ended that are under way, and notes the files where one goes
  /// on. A file for which the store works meanwhile (fsync(2), which holds the same lock in the kernel) gets all of the
  /// patience.
  mutating func awaitWrites(to classes: [ProtectionClass], _ outcome: inout LockOutcome) {
    lateWrites.removeAll(where: \.isDone)
    var late = Set(lateWrites.flatMap(\.unfinished))
    let written = classes.flatMap { fileSystem.writtenNodes(in: $0) }.filter { !late.contains($0) }
    let paths = Session.waitsByPath ? fileSystem.writtenPaths(in: classes, below: mountPoint) : [:]
    let batch = writes.begin(written, paths: paths)
    let begin = MonotonicClock.nanoseconds
    while !batch.wait(microseconds: Self.tick) {
      let time = MonotonicClock.nanoseconds - begin
      let isHeld = time < patience.inNanoseconds && !session.nodesHeldByRequests.isDisjoint(with: batch.unfinished)
      if time >= patience.inNanoseconds / Self.share, !isHeld { break }
      // Where each thread waits for another file, no more is learned.
      if batch.isUntouched, writes.isExhausted { break }
      if batch.hasMore { writes.help(batch) }
    }
    // Of files that no thread has come to, nothing is known.
    _ = batch.giveUp()
    late.formUnion(batch.unfinished)
    lateWrites.append(batch)
    note(Array(late), of: classes, in: &outcome.beingWritten)
  }

  mutating func dropLateWrites() -> LateWrites {
    lateWrites.removeAll(where: \.isDone)
    guard lateDrop?.isDone ?? true else { return .underWay }
    let classes = ProtectionClass.allCases.filter {
      controller.availability(of: $0) != .available && evicted.contains($0)
    }
    let nodes = classes.flatMap { fileSystem.writtenNodes(in: $0) }
    if nodes.isEmpty { return lateWrites.isEmpty ? .none : .underWay }
    lateDrop = pages.begin(nodes)
    return lateWrites.isEmpty ? .possible : .underWay
  }
}
