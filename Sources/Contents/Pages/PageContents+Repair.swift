import Cryptography
import ProtectfsIO
import Synchronization
import SystemPackage

// What failures and power cuts leave behind the end of a file, and in holes.
extension PageContents {
  /// Makes what the last page and the last ends page have behind the length zeros. Returns whether there was something.
  @discardableResult
  func clearBehindLength(_ cipher: ContentsCipher) throws(Errno) -> Bool {
    let length = length
    guard length > 0 else { return false }
    var isChanged = false
    let page = length / PageLayout.size
    let first = Int(length % PageLayout.size)
    let payload = Int(PageLayout.payload)
    if first > 0, first < payload {
      try unsafe changePage(page, cipher: cipher) { (bytes, isThere) in
        isChanged = unsafe isThere && Self.clear(.init(rebasing: bytes[first..<payload]))
        return isChanged
      }
    }
    let group = (length - 1) / PageLayout.groupLength
    if PageLayout.group(of: page) == group {
      let start = PageLayout.end(of: page).lowerBound + max(0, first - payload)
      let areCleared = try clearEnds(of: group, [start..<payload], cipher)
      isChanged = isChanged || areCleared
    }
    return isChanged
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
