import Cryptography
import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

/// Contents in pages that are authenticated, encrypted with AES-256-GCM: a page that was changed in the backing file,
/// or moved, is noticed when it is read. An earlier version of the same page is not, nor one that was made a hole.
///
/// A hole is noticed in a dense file: see ``expect(_:)``.
///
/// A page is written as a whole, and verifies by itself. Pages and the length of the backing file may reach the disk in
/// any order: whatever a power cut leaves of them reads as it was before or after. These rules see to that:
///
/// - Behind the last page there is a hole, and the rest of that page, and of the ends page, is zeros.
/// - A growth that adds pages sets the length first.
/// - A shrink never cuts inside a page: what stands where the hole will be is removed as a whole before.
/// - What a power cut, or a failure, may have left of these is put right before the next change (``recover(_:)``).
final class PageContents: FileContents {
  let backing: BackingFile
  private let pageWait: BackingMedium.PageWait
  /// One more than the number of errors of write-back at the time when nothing was known to be in the way of a change;
  /// 0 before, and after a failure.
  private let recovery: Atomic<UInt64>
  /// There was something last time that is not authentic, or missing.
  let hasDamage = Atomic(false)
  /// No page is a hole, and one that is found is damage: none was when the file was opened, or it was empty, and no
  /// change since has made one.
  private let dense = Atomic(false)
  /// Pages that a write has left out of a dense file which has come before the one ahead of it, by another thread: the
  /// first, and the one behind the last, in the halves of a word; 0 for none.
  private let gap = Atomic<UInt64>(0)

  init(_ backing: BackingFile, _ medium: BackingMedium) {
    self.backing = backing
    pageWait = medium.pageWait
    recovery = Atomic(backing.length == 0 ? 1 : 0)
    expect(nil)
  }

  func expect(_ known: CleanContents?) {
    // Other writers may make holes at any time.
    let isKnown = backing.writers != .shared && known?.isDense == true
    isDense = isKnownEmpty || isKnown && (try? backing.currentLength()) == known?.length
  }

  /// Whether there are no pages, and nobody else adds holes.
  var isKnownEmpty: Bool { backing.writers == .sole && length == 0 }

  var isDense: Bool {
    get { dense.load(ordering: .relaxed) && !hasGap }
    set {
      dense.store(newValue, ordering: .relaxed)
      gap.store(0, ordering: .relaxed)
    }
  }

  /// Whether the file is dense once all pages are written that were left out.
  var hasGap: Bool { gap.load(ordering: .relaxed) != 0 }

  /// Notes that a write leaves out pages. Of one gap it is known when it is filled.
  func leaveOut(_ pages: Range<UInt64>) {
    if pages.isEmpty { return }
    if hasGap || pages.upperBound > UInt32.max { return isDense = false }
    gap.store(pages.lowerBound << 32 | pages.upperBound, ordering: .relaxed)
  }

  /// Notes that pages were written.
  func fill(_ pages: Range<UInt64>) {
    let known = gap.load(ordering: .relaxed)
    var (first, end) = (known >> 32, known & 0xffff_ffff)
    if pages.contains(first) {
      first = min(pages.upperBound, end)
    } else if pages.contains(end - 1) {
      end = pages.lowerBound
    }
    gap.store(first < end ? first << 32 | end : 0, ordering: .relaxed)
  }

  /// Whether nothing that a power cut or a failure may have left is in the way of a change. What others write may have
  /// been left by another cut.
  var isRecovered: Bool {
    backing.writers != .shared && !hasDamage.load(ordering: .relaxed)
      && recovery.load(ordering: .acquiring) == UInt64(backing.writeBackErrors.count) + 1
  }

  /// Runs `body`, after which nothing is in the way of a change; but if it fails, or write-back fails meanwhile, there
  /// may be.
  func recovering(_ body: () throws(Errno) -> Void) throws(Errno) {
    let errors = backing.writeBackErrors.count
    needsRecovery()
    try body()
    recovery.store(UInt64(errors) + 1, ordering: .releasing)
  }

  /// There may be something in the way of the next change.
  func needsRecovery() { recovery.store(0, ordering: .releasing) }

  var ciphertextEnd: UInt64 { DataUnits.start(of: PageLayout.backingLength(for: length)) }

  /// Whether the contents go on behind the bytes of a page of plaintext that are in its own page.
  func hasEnd(_ page: UInt64, ofLength length: UInt64) -> Bool { length > page * PageLayout.size + PageLayout.payload }

  // MARK: Single pages

  /// Reads pages, the first of which is number `first`, as they are in the backing file. Returns the cipher for them.
  ///
  /// - Throws: `EIO` where the backing file is shorter than its length says.
  func load(
    _ bytes: UnsafeMutableRawBufferPointer, from first: UInt64, cipher: ContentsCipher, _ overlay: Overlay? = nil
  ) throws(Errno) -> ContentsCipher {
    let start = first * PageLayout.size
    guard try unsafe backing.descriptor.read(into: bytes, at: start) == bytes.count else { throw .ioError }
    guard let overlay else { return cipher }
    return try unsafe self.overlay(overlay(), on: bytes, from: start, cipher)
  }

  /// Reads a page into `page`, and decrypts it. Returns whether it was there: a hole is zeros.
  func open(_ page: UnsafeMutableRawBufferPointer, number: UInt64, cipher: ContentsCipher) throws(Errno) -> Bool {
    _ = try unsafe load(page, from: number, cipher: cipher)
    if unsafe Memory.isZero(UnsafeRawBufferPointer(page)) { return false }
    try unsafe cipher.decrypt(page, firstUnit: number)
    return true
  }

  /// Encrypts pages in place, the first of which is number `first`, and writes them. A page that was written in part
  /// is written whole, or made a hole again if it was one, where that is possible.
  ///
  /// - Parameter whenFull: see ``FileContents/write(_:at:cipher:keepingPart:whenFull:)``.
  func store(
    _ pages: UnsafeMutableRawBufferPointer, from first: UInt64, cipher: ContentsCipher, written: inout Int,
    whenFull: () -> Bool = { false }
  ) throws(Errno) {
    try unsafe cipher.encrypt(pages, firstUnit: first)
    let start = first * PageLayout.size
    // Nothing is on its way of pages that were not there before.
    let known = (start..<start + UInt64(pages.count)).clamped(to: 0..<ciphertextEnd)
    if !known.isEmpty { try finishWriteBack(of: known) }
    written = 0
    do throws(Errno) {
      do throws(Errno) {
        try unsafe writeRest(of: pages, at: start, &written)
      } catch {
        guard error.isOutOfSpace, whenFull() else { throw error }
        try unsafe writeRest(of: pages, at: start, &written)
      }
    } catch {
      let whole = Int(DataUnits.end(of: UInt64(written)))
      do throws(Errno) {
        try unsafe writeRest(of: .init(rebasing: pages[..<whole]), at: start, &written)
      } catch {
        removeTornPage(at: start + UInt64(written))
      }
      throw error
    }
  }

  /// Waits until pages of the backing file may be changed.
  func finishWriteBack(of range: Range<UInt64>) throws(Errno) { try backing.finishWriteBack(of: range, pageWait) }

  /// Writes what is left of bytes of which some are written.
  private func writeRest(
    of bytes: UnsafeMutableRawBufferPointer, at start: UInt64, _ written: inout Int
  ) throws(Errno) {
    let before = written
    var count = 0
    defer { written = before + count }
    try unsafe backing.descriptor.write(
      UnsafeRawBufferPointer(rebasing: bytes[before...]), at: start + UInt64(before), written: &count)
  }

  /// Calls `body` with room for a page, and wipes it afterwards.
  func withPage(_ body: (UnsafeMutableRawBufferPointer) throws(Errno) -> Void) throws(Errno) {
    try unsafe withScratch { (scratch) throws(Errno) in
      try unsafe body(.init(rebasing: scratch[..<Int(PageLayout.size)]))
    }
  }

  /// Makes bytes zeros. Returns whether they were not.
  static func clear(_ bytes: UnsafeMutableRawBufferPointer) -> Bool {
    if unsafe Memory.isZero(UnsafeRawBufferPointer(bytes)) { return false }
    unsafe bytes.initializeMemory(as: UInt8.self, repeating: 0)
    return true
  }

  /// Changes the ends page of a group.
  ///
  /// - Parameters:
  ///   - body: changes the ends, and returns whether they are other ones now.
  ///   - isNeeded: whether there is to be one, be it all zeros.
  /// - Returns: whether it was written.
  @discardableResult
  func changeEnds(
    of group: UInt64, isNeeded: Bool, cipher: ContentsCipher, whenFull: () -> Bool = { false },
    _ body: (UnsafeMutableRawBufferPointer) -> Bool
  ) throws(Errno) -> Bool {
    var isWritten = false
    let number = PageLayout.endsPage(of: group)
    try unsafe withPage { (page) throws(Errno) in
      let isThere = try unsafe open(page, number: number, cipher: cipher)
      if !isThere, isDense, hasEnd(group * PageLayout.pagesInGroup, ofLength: length) { throw .missingPage }
      let isChanged = unsafe body(page)
      guard isChanged || isNeeded && !isThere else { return }
      var written = 0
      try unsafe store(page, from: number, cipher: cipher, written: &written, whenFull: whenFull)
      isWritten = true
    }
    return isWritten
  }

  // MARK: Seeking

  func seek(to offset: UInt64, _ origin: SeekOrigin, of end: UInt64) throws(Errno) -> UInt64 {
    guard offset < end else { throw .noSuchAddressOrDevice }
    var page = offset / PageLayout.size
    while page * PageLayout.size < end {
      let start = PageLayout.backingPage(of: page) * PageLayout.size
      let found: UInt64
      do throws(Errno) {
        found = try backing.descriptor.seek(to: start, origin)
      } catch {
        // The length is in a hole behind the pages.
        guard error == .noSuchAddressOrDevice else { throw error }
        break
      }
      let number = found / PageLayout.size + (origin == .hole && found % PageLayout.size > 0 ? 1 : 0)
      page = PageLayout.page(ofBacking: number)
      // An ends page is neither data nor a hole.
      if PageLayout.kind(of: number) == .ends { continue }
      if page * PageLayout.size < end { return max(page * PageLayout.size, offset) }
    }
    if origin == .hole { return end }
    throw .noSuchAddressOrDevice
  }
}
