import Cryptography
import ProtectfsIO
import SystemPackage

extension PageContents {
  func write(
    _ bytes: UnsafeMutableRawBufferPointer, at offset: UInt64, cipher: ContentsCipher, keepingPart: Bool,
    whenFull: () -> Bool
  ) throws(Errno) {
    try recover(cipher)
    let oldLength = length
    let end = offset + UInt64(bytes.count)
    var position = offset
    let pages = PageLayout.pages(of: offset..<end)
    if offset > oldLength {
      let next = DataUnits.end(of: oldLength) / PageLayout.size
      leaveOut(next..<max(next, pages.lowerBound))
    }
    do throws(Errno) {
      try growing(to: end, cipher: cipher) { () throws(Errno) in
        while position < end {
          let next = min(end, (position / PageLayout.groupLength + 1) * PageLayout.groupLength)
          let part = Int(position - offset)..<Int(next - offset)
          try unsafe writeGroup(
            .init(rebasing: bytes[part]), position: &position, length: max(end, oldLength), cipher: cipher, whenFull)
        }
      }
      if hasGap { fill(pages) }
    } catch {
      // What is there of a growth may want an ends page that is not.
      if end > oldLength { isDense = false }
      cutBack(to: keepingPart && position > offset ? max(position, oldLength) : oldLength)
      throw error
    }
  }

  /// Runs `body`, which writes pages, and gives the file a length that is more than it has, if it is: before `body`
  /// where that adds pages, so that none is written behind the end, and after it where it does not.
  func growing(to end: UInt64, cipher: ContentsCipher, _ body: () throws(Errno) -> Void) throws(Errno) {
    let oldLength = length
    guard end > oldLength else { return try body() }
    if hasDamage.load(ordering: .relaxed) { throw .notAuthentic }
    let backingLength = PageLayout.backingLength(for: end)
    let addsPages = backingLength / PageLayout.size > PageLayout.backingLength(for: oldLength) / PageLayout.size
    if addsPages { try backing.descriptor.truncate(to: backingLength) }
    try body()
    if !addsPages { try backing.descriptor.truncate(to: backingLength) }
    // The last group had page 0 alone, whose end is in the ends page from now on.
    let page = oldLength / PageLayout.groupLength * PageLayout.pagesInGroup
    if oldLength > page * PageLayout.size, !hasEnd(page, ofLength: oldLength), hasEnd(page, ofLength: end) {
      try unsafe changeEnds(of: PageLayout.group(of: page), isNeeded: true, cipher: cipher) { _ in false }
    }
    backing.length = end
  }

  /// Writes bytes into one group: first their ends, so that a page that was written is written whole, then the pages in
  /// their order. `position` advances with them.
  ///
  /// - Parameter length: that the contents will have.
  private func writeGroup(
    _ bytes: UnsafeMutableRawBufferPointer, position: inout UInt64, length: UInt64, cipher: ContentsCipher,
    _ whenFull: () -> Bool
  ) throws(Errno) {
    let offset = position
    let end = offset + UInt64(bytes.count)
    let pages = PageLayout.pages(of: offset..<end)
    let endsInside = !DataUnits.isAligned(end) && end < length
    if !DataUnits.isAligned(offset) || endsInside && pages.count == 1 { try requireNoEnd(of: pages.lowerBound, cipher) }
    if endsInside, pages.count > 1 { try requireNoEnd(of: pages.upperBound - 1, cipher) }
    if pages.contains(where: { hasEnd($0, ofLength: length) }) {
      let group = PageLayout.group(of: pages.lowerBound)
      try unsafe changeEnds(of: group, isNeeded: true, cipher: cipher, whenFull: whenFull) { ends in
        var isChanged = false
        for page in pages {
          let last = page * PageLayout.size + PageLayout.payload..<(page + 1) * PageLayout.size
          let common = last.clamped(to: offset..<end)
          guard !common.isEmpty else { continue }
          let target = PageLayout.end(of: page).lowerBound + Int(common.lowerBound - last.lowerBound)
          // Also if it is the same: after an error of write-back it is not what the disk has.
          unsafe UnsafeMutableRawBufferPointer(rebasing: ends[target..<target + common.count])
            .copyMemory(from: .init(rebasing: bytes[Int(common.lowerBound - offset)..<Int(common.upperBound - offset)]))
          isChanged = true
        }
        return isChanged
      }
    }
    while position < end {
      let page = position / PageLayout.size
      // The ends page stands behind page 0.
      let limit = page % PageLayout.pagesInGroup == 0 ? page + 1 : pages.upperBound
      let wholeEnd = min(DataUnits.start(of: end), limit * PageLayout.size)
      if DataUnits.isAligned(position), wholeEnd > position {
        let part = Int(position - offset)..<Int(wholeEnd - offset)
        try unsafe writeWhole(.init(rebasing: bytes[part]), position: &position, cipher: cipher, whenFull)
      } else {
        let next = min(end, (page + 1) * PageLayout.size)
        let part = Int(position - offset)..<Int(next - offset)
        try unsafe merge(.init(rebasing: bytes[part]), at: position, cipher: cipher, whenFull)
        position = next
      }
    }
  }

  /// Makes the end of a page zeros that is a hole, and that durable, before the page is written in part: the end of a
  /// page that a failure or a power cut has left there, where the file system does not show holes.
  private func requireNoEnd(of page: UInt64, _ cipher: ContentsCipher) throws(Errno) {
    let number = PageLayout.backingPage(of: page)
    guard (number + 1) * PageLayout.size <= ciphertextEnd, hasEnd(page, ofLength: length) else { return }
    var isThere = true
    try unsafe withPage { (bytes) throws(Errno) in
      _ = try unsafe load(bytes, from: number, cipher: cipher)
      isThere = unsafe !Memory.isZero(UnsafeRawBufferPointer(bytes))
    }
    guard !isThere, try clearEnds(of: PageLayout.group(of: page), [PageLayout.end(of: page)], cipher) else { return }
    try backing.synchronize(dataOnly: true)
  }

  /// Writes pages that are replaced entirely. Their ends are written.
  private func writeWhole(
    _ pages: UnsafeMutableRawBufferPointer, position: inout UInt64, cipher: ContentsCipher, _ whenFull: () -> Bool
  ) throws(Errno) {
    let number = PageLayout.backingPage(of: position / PageLayout.size)
    var written = 0
    do throws(Errno) {
      try unsafe store(pages, from: number, cipher: cipher, written: &written, whenFull: whenFull)
    } catch {
      position += DataUnits.start(of: UInt64(written))
      throw error
    }
    position += UInt64(pages.count)
  }

  /// Writes part of a page: reads the rest, and writes the whole. A hole becomes a page.
  private func merge(
    _ bytes: UnsafeMutableRawBufferPointer, at offset: UInt64, cipher: ContentsCipher, _ whenFull: () -> Bool
  ) throws(Errno) {
    let page = offset / PageLayout.size
    let first = Int(offset % PageLayout.size)
    let last = min(first + bytes.count, Int(PageLayout.payload))
    let replacesAll = first == 0 && (last == Int(PageLayout.payload) || offset + UInt64(bytes.count) >= length)
    try unsafe changePage(page, cipher: cipher, readsRest: !replacesAll, whenFull: whenFull) { (target, isThere) in
      guard first < last else { return !isThere }
      unsafe UnsafeMutableRawBufferPointer(rebasing: target[first..<last])
        .copyMemory(from: .init(rebasing: bytes[..<(last - first)]))
      return true
    }
  }

  /// Changes a page, but not its end.
  ///
  /// - Parameter body: changes the page, which is zeros where it is not there, and returns whether it is to be written.
  func changePage(
    _ page: UInt64, cipher: ContentsCipher, readsRest: Bool = true, whenFull: () -> Bool = { false },
    _ body: (UnsafeMutableRawBufferPointer, _ isThere: Bool) -> Bool
  ) throws(Errno) {
    let number = PageLayout.backingPage(of: page)
    try unsafe withPage { (bytes) throws(Errno) in
      var isThere = false
      if readsRest {
        isThere = try unsafe open(bytes, number: number, cipher: cipher)
        if !isThere, isDense, page * PageLayout.size < length { throw .missingPage }
      } else {
        unsafe bytes.initializeMemory(as: UInt8.self, repeating: 0)
      }
      guard unsafe body(bytes, isThere) else { return }
      var written = 0
      try unsafe store(bytes, from: number, cipher: cipher, written: &written, whenFull: whenFull)
    }
  }
}
