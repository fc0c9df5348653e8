import Cryptography
import ProtectfsIO
import SystemPackage

extension PageContents {
  func plaintext(
    at offset: UInt64, count: Int, of length: UInt64, into buffer: UnsafeMutableRawBufferPointer,
    cipher: ContentsCipher, _ overlay: Overlay?
  ) throws(Errno) -> UnsafeRawBufferPointer {
    var end = min(offset + UInt64(count), length)
    while end > offset {
      do throws(Errno) {
        return try unsafe plaintext(offset..<end, into: buffer, cipher, overlay)
      } catch {
        // Others may have cut the file meanwhile.
        guard case let length = try backing.currentLength(), length < end else { throw error }
        end = length
      }
    }
    return unsafe UnsafeRawBufferPointer(rebasing: buffer[..<0])
  }

  private func plaintext(
    _ range: Range<UInt64>, into buffer: UnsafeMutableRawBufferPointer, _ cipher: ContentsCipher, _ overlay: Overlay?
  ) throws(Errno) -> UnsafeRawBufferPointer {
    let (offset, end) = (range.lowerBound, range.upperBound)
    let start = DataUnits.start(of: offset)
    let whole = Int(DataUnits.end(of: end) - start)
    var page = start / PageLayout.size
    let last = (end - 1) / PageLayout.size
    do throws(Errno) {
      while page <= last {
        let next = min(last + 1, (PageLayout.group(of: page) + 1) * PageLayout.pagesInGroup)
        let part = Int(page * PageLayout.size - start)..<Int(next * PageLayout.size - start)
        try unsafe readGroup(.init(rebasing: buffer[part]), page..<next, end, cipher, overlay)
        page = next
      }
    } catch {
      unsafe Memory.wipe(.init(rebasing: buffer[..<whole]))
      throw error
    }
    // Pages are decrypted whole, so the bytes outside the requested range are wiped.
    let part = Int(offset - start)..<Int(end - start)
    unsafe Memory.wipe(.init(rebasing: buffer[..<part.lowerBound]))
    unsafe Memory.wipe(.init(rebasing: buffer[part.upperBound..<whole]))
    return unsafe UnsafeRawBufferPointer(rebasing: buffer[part])
  }

  /// Reads pages of plaintext of one group, as far as the contents go. `buffer` has room for all of them.
  private func readGroup(
    _ buffer: UnsafeMutableRawBufferPointer, _ pages: Range<UInt64>, _ end: UInt64, _ cipher: ContentsCipher,
    _ overlay: Overlay?
  ) throws(Errno) {
    /// Bits of the pages that are no holes and have an end.
    var ends: UInt128 = 0
    let isDense = isDense
    var page = pages.lowerBound
    while page < pages.upperBound {
      // The ends page stands behind page 0.
      let next = page % PageLayout.pagesInGroup == 0 ? page + 1 : pages.upperBound
      let first = Int((page - pages.lowerBound) * PageLayout.size)
      let run = unsafe UnsafeMutableRawBufferPointer(
        rebasing: buffer[first..<first + Int((next - page) * PageLayout.size)])
      let number = PageLayout.backingPage(of: page)
      let cipher = try unsafe load(run, from: number, cipher: cipher, overlay)
      for index in page..<next {
        let start = Int((index - page) * PageLayout.size)
        let isHole = unsafe Memory.isZero(.init(rebasing: run[start..<start + Int(PageLayout.size)]))
        if isHole, isDense { throw .missingPage }
        if !isHole, hasEnd(index, ofLength: end) { ends |= 1 << UInt128(index - pages.lowerBound) }
      }
      try unsafe cipher.decrypt(run, firstUnit: number)
      page = next
    }
    if ends != 0 { try unsafe readEnds(into: buffer, pages, ends, cipher, overlay) }
  }

  private func readEnds(
    into buffer: UnsafeMutableRawBufferPointer, _ pages: Range<UInt64>, _ ends: UInt128, _ cipher: ContentsCipher,
    _ overlay: Overlay?
  ) throws(Errno) {
    try unsafe withPage { (page) throws(Errno) in
      let number = PageLayout.endsPage(of: PageLayout.group(of: pages.lowerBound))
      let cipher = try unsafe load(page, from: number, cipher: cipher, overlay)
      if isDense, unsafe Memory.isZero(UnsafeRawBufferPointer(page)) { throw .missingPage }
      try unsafe cipher.decrypt(page, firstUnit: number)
      for index in pages where ends >> UInt128(index - pages.lowerBound) & 1 == 1 {
        let target = Int((index - pages.lowerBound) * PageLayout.size + PageLayout.payload)
        unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[target..<target + Int(PageLayout.ends)])
          .copyMemory(from: .init(rebasing: page[PageLayout.end(of: index)]))
      }
    }
  }
}
