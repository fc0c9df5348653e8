import Cryptography

/// Where the bytes of contents are in a backing file of pages, and the length of that file.
///
/// A group is 128 pages of 4096 bytes for 127 *pages of plaintext*, of 4096 bytes too: first that of page 0, then the
/// *ends page*, then those of pages 1 to 126. A page has the first 4064 bytes of its plaintext, and the ends page the
/// last 32 of each. So a page that an application writes is one page on the disk, and 32 bytes of another.
enum PageLayout {
  /// Bytes in a page, and in a page of plaintext.
  static let size = UInt64(PageCipher.pageSize)
  /// Bytes of a page of plaintext that its own page has.
  static let payload = UInt64(PageCipher.payloadSize)
  /// Bytes of it that the ends page has.
  static let ends = size - payload
  /// Pages of plaintext in a group.
  static let pagesInGroup: UInt64 = 127
  /// Bytes of plaintext in a group.
  static let groupLength = pagesInGroup * size
  /// Bytes of the backing file in a group.
  static let backingGroupLength = (pagesInGroup + 1) * size

  /// The number of the group that has a page of plaintext.
  static func group(of page: UInt64) -> UInt64 { page / pagesInGroup }

  /// The number of the page that has a page of plaintext.
  static func backingPage(of page: UInt64) -> UInt64 {
    let (group, index) = page.quotientAndRemainder(dividingBy: pagesInGroup)
    return group * (pagesInGroup + 1) + (index == 0 ? 0 : index + 1)
  }

  /// The pages of plaintext that have bytes of a range, which is not empty.
  static func pages(of bytes: Range<UInt64>) -> Range<UInt64> {
    bytes.lowerBound / size..<(bytes.upperBound - 1) / size + 1
  }

  /// The page of plaintext that a page has; for an ends page, the one behind it.
  static func page(ofBacking number: UInt64) -> UInt64 {
    let (group, index) = number.quotientAndRemainder(dividingBy: pagesInGroup + 1)
    return group * pagesInGroup + (index == 0 ? 0 : max(index, 2) - 1)
  }

  /// The number of a group's ends page.
  static func endsPage(of group: UInt64) -> UInt64 { group * (pagesInGroup + 1) + 1 }

  /// What the page with a number holds.
  static func kind(of number: UInt64) -> PageCipher.Kind { number % (pagesInGroup + 1) == 1 ? .ends : .data }

  /// Where the ends page of its group has the end of a page of plaintext.
  static func end(of page: UInt64) -> Range<Int> {
    let start = Int(page % pagesInGroup * ends)
    return start..<start + Int(ends)
  }

  // MARK: Lengths

  /// See ``ContentsLayout/longest``.
  static let longest = UInt64(Int64.max) / backingGroupLength * groupLength

  /// The pages that the contents take, and behind them a hole whose length is what `length` has more than whole pages;
  /// where page 0 alone is needed, the hole has the whole of it.
  static func backingLength(for length: UInt64) -> UInt64 {
    guard length > 0 else { return 0 }
    let group = (length - 1) / groupLength
    let rest = length - group * groupLength
    let start = group * backingGroupLength
    if rest <= payload { return start + size + rest }
    return start + size * (1 + (rest + size - 1) / size) + rest % size
  }

  /// `nil` for a length that no contents have.
  static func length(ofBacking length: UInt64) -> UInt64? {
    guard length > 0 else { return 0 }
    let (pages, rest) = length.quotientAndRemainder(dividingBy: size)
    guard pages > 0 else { return nil }
    let endsGroup = rest == 0 || pages % (pagesInGroup + 1) == 0
    let group = (pages - (endsGroup ? 1 : 0)) / (pagesInGroup + 1)
    let inGroup = pages - group * (pagesInGroup + 1)
    let before = inGroup == 1 ? 0 : inGroup - (rest == 0 ? 1 : 2)
    let found = group * groupLength + before * size + rest
    return found <= longest && backingLength(for: found) == length ? found : nil
  }
}
