import Cryptography
import ProtectfsIO
import Synchronization
import SystemPackage

extension PageContents {
  func allocate(_ mode: AllocationMode, _ range: Range<UInt64>, cipher: ContentsCipher) throws(Errno) {
    let (oldLength, end) = (length, range.upperBound)
    let room = PageLayout.backingPage(of: range.lowerBound / PageLayout.size) * PageLayout.size..<backingEnd(of: end)
    switch mode {
    case [] where end > oldLength:
      try resize(to: end, cipher: cipher, taking: room)
    case [], [.keepSize]:
      try backing.descriptor.allocate([.keepSize], offset: room.lowerBound, length: UInt64(room.count))
    case [.punchHole, .keepSize], [.zeroRange, .keepSize]:
      try zero(range, in: room, mode: mode, cipher: cipher)
    case [.zeroRange]:
      try zero(range, in: room, mode: [.zeroRange, .keepSize], cipher: cipher)
      if end > oldLength {
        let start = max(backingEnd(of: oldLength), room.lowerBound)
        try resize(to: end, cipher: cipher, taking: start < room.upperBound ? start..<room.upperBound : nil)
      }
    default:
      throw .notSupportedOnSocket
    }
  }

  /// Where the pages end that contents of a length take.
  private func backingEnd(of length: UInt64) -> UInt64 { DataUnits.start(of: PageLayout.backingLength(for: length)) }

  /// Makes a range read as zeros: whole pages become holes, parts of pages encrypted zeros.
  private func zero(
    _ range: Range<UInt64>, in room: Range<UInt64>, mode: AllocationMode, cipher: ContentsCipher
  ) throws(Errno) {
    guard range.lowerBound < length else {
      if mode.contains(.zeroRange) { try punch(room, mode: [.keepSize]) }
      return
    }
    try recover(cipher)
    isDense = false
    // After a failure there may be ends of pages that are holes.
    try recovering { () throws(Errno) in
      try forEachPart(of: range) { (whole) throws(Errno) in
        try zeroWhole(
          whole.lowerBound / PageLayout.size..<whole.upperBound / PageLayout.size, mode: mode, cipher: cipher)
      } part: { (part) throws(Errno) in
        try zeroPart(part, cipher: cipher)
      }
    }
  }

  private func zeroPart(_ range: Range<UInt64>, cipher: ContentsCipher) throws(Errno) {
    let page = range.lowerBound / PageLayout.size
    let first = Int(range.lowerBound - page * PageLayout.size)
    let last = min(first + range.count, Int(PageLayout.payload))
    try unsafe changePage(page, cipher: cipher) { (bytes, isThere) in
      guard isThere, first < last else { return false }
      unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[first..<last]).initializeMemory(as: UInt8.self, repeating: 0)
      return true
    }
    let behind = Int(PageLayout.payload)
    if first + range.count > behind {
      let start = PageLayout.end(of: page).lowerBound
      try clearEnds(
        of: PageLayout.group(of: page), [start + max(0, first - behind)..<start + first + range.count - behind], cipher)
    }
  }

  /// Makes pages of plaintext holes.
  private func zeroWhole(_ pages: Range<UInt64>, mode: AllocationMode, cipher: ContentsCipher) throws(Errno) {
    var page = pages.lowerBound
    while page < pages.upperBound {
      let group = PageLayout.group(of: page)
      let start = group * PageLayout.pagesInGroup
      // Groups that go as a whole, with their ends pages, go at once.
      let groups = page == start ? pages.upperBound / PageLayout.pagesInGroup - group : 0
      if groups > 0 {
        try punch(
          group * PageLayout.backingGroupLength..<(group + groups) * PageLayout.backingGroupLength, mode: mode)
        page = start + groups * PageLayout.pagesInGroup
        continue
      }
      let next = min(pages.upperBound, start + PageLayout.pagesInGroup)
      if page == start {
        let number = PageLayout.backingPage(of: page) * PageLayout.size
        try punch(number..<number + PageLayout.size, mode: mode)
      }
      let rest = max(page, start + 1)
      if rest < next {
        let first = PageLayout.backingPage(of: rest) * PageLayout.size
        // The last page of the contents may be the last of the file.
        try punch(first..<first + (next - rest) * PageLayout.size, mode: mode)
      }
      try clearEnds(
        of: group, [PageLayout.end(of: page).lowerBound..<PageLayout.end(of: next - 1).upperBound], cipher)
      page = next
    }
  }

  /// Makes bytes of an ends page zeros, if there is such a page. Returns whether it was written.
  @discardableResult
  func clearEnds(of group: UInt64, _ ranges: [Range<Int>], _ cipher: ContentsCipher) throws(Errno) -> Bool {
    guard PageLayout.endsPage(of: group) * PageLayout.size < ciphertextEnd else { return false }
    return try unsafe changeEnds(of: group, isNeeded: false, cipher: cipher) { ends in
      var isChanged = false
      for range in ranges where unsafe Self.clear(.init(rebasing: ends[range])) { isChanged = true }
      return isChanged
    }
  }
}
