import CSystemCalls
import ProtectfsIO

/// A disk in memory, which stands in the place of the backing store for what a test does on its thread.
///
/// It keeps what fsync(2) and the like promise (fsync(2), POSIX.1-2024), and no more: whatever was not made durable is
/// there after a power cut or not, each change by itself; a file's size apart from its contents, one page of these
/// apart from the next, and a rename of a file apart from the file. With a journal, as ext4 and XFS have one, changes
/// of names and attributes are there in their order, and sizes and holes not before those that came first (kernel:
/// filesystems/ext4/journal.rst).
package final class SimulatedDisk: @unchecked Sendable {
  /// Where it is found.
  package static let path: PathName = "/simulated"

  /// That of the calling thread.
  @TaskLocal static var current: SimulatedDisk?

  /// What programs see.
  package private(set) var image: DiskImage
  private var durable: DiskImage
  private var pending: [Change] = []
  /// By their descriptors, which the kernel has given out for other files.
  private(set) var files: [CInt: OpenFile] = [:]
  private var lastInode: Int
  let keepsOrder: Bool
  private let tearsPages: Bool
  private let tearsWrites: Bool
  /// Pages that sync_file_range(2) has waited for, and that have not changed since.
  private var settled: Set<PageNumber> = []
  /// The number of the flush that the disk only pretends to do: a fault that tests have to find.
  private var pretendedFlush: Int?
  /// How many flushes there were that had something to do.
  private var flushes = 0
  /// The moments before something was made durable: what a cut at any other moment leaves, one at these does.
  private var cuts: [PowerCut] = []

  /// Whether it has renameat2(2) with `RENAME_EXCHANGE`, which network file systems do not.
  package var exchangesNames = true

  /// The call that is to fail.
  var armed: Armed?
  /// Set where only half of what is given to a write is written.
  var halfway: Failure?
  /// What is wrong with the code that makes the calls.
  private(set) var planted: PlantedFault?
  /// What becomes of the changes of the present call.
  var effect: PlantedFault.Effect?
  private var late: [Change] = []

  struct OpenFile {
    let inode: Int
    let flags: CInt
    var position: Int64 = 0
  }

  /// - Parameters:
  ///   - keepsOrder: whether it has a journal.
  ///   - tearsPages: whether sectors of 512 bytes of a page that is overwritten are there or not, each by itself. A
  ///     page that is new is seen when all of it is there: its extent counts as unwritten until then (ext4, XFS).
  ///   - tearsWrites: whether a page that changes again, without a wait, is read while it does: half of it is there.
  package init(
    _ image: DiskImage = DiskImage(), keepsOrder: Bool = false, tearsPages: Bool = false, tearsWrites: Bool = false
  ) {
    self.tearsWrites = tearsWrites
    self.image = image
    self.keepsOrder = keepsOrder
    self.tearsPages = tearsPages
    durable = image
    lastInode = image.nextNumber
    StoreTable.install
  }

  /// Calls `body`, for which this is the store's disk.
  package func run<Result>(_ body: () throws -> Result) rethrows -> Result {
    try Self.$current.withValue(self) { try body() }
  }

  /// Forgets the moments until now.
  ///
  /// - Parameters:
  ///   - flush: which of the flushes from now on is only pretended; the next is 1.
  ///   - fault: what is wrong from now on with the code that makes the calls.
  package func beginStep(pretending flush: Int? = nil, with fault: PlantedFault? = nil) {
    cuts = []
    planted = fault
    pretendedFlush = flush.map { flushes + $0 }
  }

  /// What a power cut would leave now.
  private var cut: PowerCut {
    PowerCut(
      durable: durable, pending: pending, keepsOrder: keepsOrder, tearsPages: tearsPages, tearsWrites: tearsWrites)
  }

  /// What power cuts since the step began may leave; the last after its end.
  var cutsOfStep: [PowerCut] { cuts + [cut] }

  // MARK: Changes

  func make(_ change: Change) {
    switch effect {
    case .leftOut: break
    case .late: late.append(change)
    case nil:
      let changes = [change] + late
      late = []
      for change in changes {
        image.make(change)
        pending.append(change)
      }
    }
  }

  private struct PageNumber: Hashable {
    let inode: Int
    let page: UInt64
  }

  /// How much of a write to a page is there as a whole, in bytes.
  func atomicSize(of page: UInt64, in inode: Int) -> UInt64 {
    if tearsPages && durable[inode].pages[page] != nil { return 512 }
    if !tearsWrites || settled.contains(PageNumber(inode: inode, page: page)) { return DiskImage.pageSize }
    // What drops a page waits for it.
    let last = pending.last { change in
      switch change {
      case .data(inode, page, _, _), .hole(inode, page): true
      case .size(inode, let size, _): size <= page * DiskImage.pageSize
      default: false
      }
    }
    return last?.isData == true ? DiskImage.pageSize / 2 : DiskImage.pageSize
  }

  /// A page has changed since it was waited for.
  func unsettle(_ page: UInt64, of inode: Int) { settled.remove(PageNumber(inode: inode, page: page)) }

  /// Writes pages, and waits for them; they are not durable.
  func settle(_ file: OpenFile, _ range: Range<UInt64>) {
    guard effect == nil, !range.isEmpty else { return }
    for page in range.lowerBound / DiskImage.pageSize...(range.upperBound - 1) / DiskImage.pageSize {
      settled.insert(PageNumber(inode: file.inode, page: page))
    }
  }

  func add(_ inode: DiskImage.Inode) -> Int {
    lastInode += 1
    image.add(inode, as: lastInode)
    durable.add(inode, as: lastInode)
    return lastInode
  }

  /// Makes durable what `isFlushed` says.
  func flush(_ isFlushed: (Change) -> Bool) {
    guard pending.contains(where: isFlushed), effect == nil else { return }
    cuts.append(cut)
    flushes += 1
    if flushes == pretendedFlush { return }
    // What the journal has before it.
    let journal = keepsOrder ? pending.lastIndex { $0.isJournaled && isFlushed($0) } ?? -1 : -1
    var rest: [Change] = []
    for (index, change) in pending.enumerated() {
      if isFlushed(change) || index <= journal && change.isJournaled {
        durable.make(change)
      } else {
        rest.append(change)
      }
    }
    pending = rest
  }

  func synchronize(_ file: OpenFile, dataOnly: Bool = false) -> CInt {
    flush { $0.isFlushed(with: file.inode, dataOnly: dataOnly) }
    return 0
  }

  func synchronizeAll() -> CInt {
    flush { _ in true }
    return 0
  }

  // MARK: Open files

  func open(_ inode: Int, _ flags: CInt) -> CInt {
    // A file of its own for each, so that locks of one are none of others.
    let descriptor = calls_open_nothing()
    if descriptor >= 0 { files[descriptor] = OpenFile(inode: inode, flags: flags) }
    return descriptor
  }

  func close(_ descriptor: CInt) { files[descriptor] = nil }

  func duplicate(_ descriptor: CInt, as other: CInt) { files[other] = files[descriptor] }

  func move(_ descriptor: CInt, to position: Int64) { files[descriptor]!.position = position }
}
