import Cryptography
import ProtectfsIO
import Synchronization
import SystemPackage

// What a power cut or a failure may have left.
extension PageContents {
  /// Puts right what a change would make contents: something behind the length, a page in the hole behind the last one,
  /// and ends of pages that are holes. It comes before the first change.
  ///
  /// What is not authentic, or missing, may stay: nobody is shown anything of it. But the file does not grow then, and
  /// the next change tries again.
  ///
  /// - Throws: the error of the backing file system.
  func recover(_ cipher: ContentsCipher) throws(Errno) {
    if isRecovered { return }
    // What was lost may be written anew.
    if backing.writeBackErrors.count > 0 { isDense = false }
    var (isChanged, isDamaged) = (false, false)
    func note(_ clear: () throws(Errno) -> Bool) throws(Errno) {
      do throws(Errno) {
        if try clear() { isChanged = true }
      } catch {
        guard error.damage != nil else { throw error }
        isDamaged = true
      }
    }
    try recovering { () throws(Errno) in
      try note { () throws(Errno) in try removePage(under: PageLayout.backingLength(for: length)) != nil }
      try forEachGroupWithHoles { (group, holes) throws(Errno) in
        try note { () throws(Errno) in try clearEnds(of: group, holes, cipher) }
      }
      try note { () throws(Errno) in try clearLastPage(cipher) }
      try note { () throws(Errno) in try clearLastEnds(cipher) }
      if isChanged { try backing.synchronize(dataOnly: true) }
    }
    hasDamage.store(isDamaged, ordering: .relaxed)
  }

  /// Calls `body` with each group that has data as well as holes, and with where the ends page has the ends of the
  /// pages that are holes.
  private func forEachGroupWithHoles(
    _ body: (_ group: UInt64, _ holes: [Range<Int>]) throws(Errno) -> Void
  ) throws(Errno) {
    let end = ciphertextEnd
    var next: UInt64 = 0
    while let data = try nextData(from: next), data < end {
      let group = data / PageLayout.backingGroupLength
      next = (group + 1) * PageLayout.backingGroupLength
      var holes: [Range<Int>] = []
      var position = group * PageLayout.backingGroupLength
      while position < min(next, end) {
        let hole = position..<min(try nextData(from: position) ?? end, next, end)
        // Where blocks are smaller than pages, a hole may be inside one.
        var number = DataUnits.end(of: hole.lowerBound) / PageLayout.size
        while (number + 1) * PageLayout.size <= hole.upperBound {
          if PageLayout.kind(of: number) == .data {
            holes.append(PageLayout.end(of: PageLayout.page(ofBacking: number)))
          }
          number += 1
        }
        if hole.upperBound == min(next, end) { break }
        position = try backing.descriptor.seek(to: hole.upperBound, .hole)
      }
      if !holes.isEmpty { try body(group, holes) }
    }
  }

  /// Where the next data of the backing file begins; `nil` where there is none.
  func nextData(from position: UInt64) throws(Errno) -> UInt64? {
    do throws(Errno) {
      return try backing.descriptor.seek(to: position, .data)
    } catch {
      guard error == .noSuchAddressOrDevice else { throw error }
      return nil
    }
  }
}
