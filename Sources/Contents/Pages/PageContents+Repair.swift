import Cryptography
import ProtectfsIO
import Synchronization
import SystemPackage

// What failures and power cuts leave behind the end of a file, and in holes.
extension PageContents {
  /// Makes what the last page has behind the length zeros. Returns whether there was something.
  func clearLastPage(_ cipher: ContentsCipher) throws(Errno) -> Bool {
    let (page, first) = lastPage
    let payload = Int(PageLayout.payload)
    guard first > 0, first < payload else { return false }
    var isChanged = false
    try unsafe changePage(page, cipher: cipher) { (bytes, isThere) in
      isChanged = unsafe isThere && Self.clear(.init(rebasing: bytes[first..<payload]))
      return isChanged
    }
    return isChanged
  }

  /// Does that with the last ends page.
  func clearLastEnds(_ cipher: ContentsCipher) throws(Errno) -> Bool {
    let (page, first) = lastPage
    let group = PageLayout.group(of: page)
    guard length > group * PageLayout.groupLength else { return false }
    let start = PageLayout.end(of: page).lowerBound + max(0, first - Int(PageLayout.payload))
    return try clearEnds(of: group, [start..<Int(PageLayout.payload)], cipher)
  }

  /// The page of plaintext in which the contents end, or behind which, and how many of its bytes they have.
  private var lastPage: (page: UInt64, count: Int) {
    let length = length
    return (length / PageLayout.size, Int(length % PageLayout.size))
  }

  /// Gives the file its accepted length after a failed change. What that has written is taken away before the next
  /// change, and so is a length that could not be set.
  func cutBack(to accepted: UInt64) {
    needsRecovery()
    backing.length = accepted
    do throws(Errno) {
      try cut(to: accepted)
    } catch {
      // Readers look at the length that it has.
      isDense = false
      backing.needsLengthRepair.store(true, ordering: .releasing)
    }
  }

  func repair(_ cipher: ContentsCipher?) throws(Errno) {
    guard backing.needsLengthRepair.load(ordering: .acquiring) else { return }
    try cut(to: length)
    backing.needsLengthRepair.store(false, ordering: .releasing)
  }
}
