/// What a power cut may leave at a moment: what is durable, and any part of what has changed since.
struct PowerCut: Sendable {
  let durable: DiskImage
  let pending: [Change]
  /// Whether the journal keeps its changes in their order.
  let keepsOrder: Bool
  /// Whether sectors of a page that is durable are written each by itself.
  var tearsPages = false
  /// Whether halves of a page are written each by itself, where a change of it was made as two.
  var tearsWrites = false

  /// What is written as a whole: a page, or a sector or half of one.
  private struct Place: Hashable {
    let inode: Int
    let page: UInt64
    let part: Int

    /// All of the page.
    var whole: Place { Place(inode: inode, page: page, part: 0) }
    /// Half of the page.
    func half(_ number: Int) -> Place { Place(inode: inode, page: page, part: -1 - number) }
    var isHalf: Bool { part < 0 }
  }

  /// Where a change of contents is.
  private func place(_ change: Change) -> Place? {
    guard case .data(let inode, let page, let start, let bytes) = change else { return nil }
    let isTorn = tearsPages && durable[inode].pages[page] != nil
    let place = Place(inode: inode, page: page, part: isTorn ? start / 512 : 0)
    let half = Int(DiskImage.pageSize / 2)
    return tearsWrites && bytes.count == half ? place.half(start / half) : place
  }

  /// Up to how many changes all parts of them are taken.
  static let mostCombined = 10

  /// The different images that may be found. Of more than a few changes: what each beginning and each end of them
  /// leaves, all but one, each alone, and some at random.
  func images(
    using generator: inout some RandomNumberGenerator, combining most: Int = mostCombined
  ) -> Set<DiskImage> {
    var images: Set<DiskImage> = []
    let places = pending.map(place)
    func add(_ isChosen: (Int) -> Bool) {
      var image = durable
      // What is written back of a page, or of a sector, has all that was written into it before.
      var last: [Place: Int] = [:]
      for index in pending.indices where isChosen(index) { if let place = places[index] { last[place] = index } }
      func isKept(_ index: Int) -> Bool {
        guard let place = places[index] else { return isChosen(index) }
        let others = place.isHalf ? [place.whole] : tearsWrites ? [place.half(0), place.half(1)] : []
        return ([place] + others).contains { index <= last[$0, default: -1] }
      }
      // Behind a change that is missing in the journal, all are; sizes and holes come to it late, or not at all.
      var endsJournal = false
      for (index, change) in pending.enumerated() {
        if isKept(index), !endsJournal || change.isData {
          image.make(change)
        } else if keepsOrder, change.isJournaled {
          endsJournal = true
        }
      }
      image.dropUnseen()
      images.insert(image)
    }
    let count = pending.count
    guard count > most else {
      for bits in 0..<1 << count { add { bits >> $0 & 1 == 1 } }
      return images
    }
    for place in 0...count {
      add { $0 < place }
      add { $0 >= place }
      add { $0 == place }
      add { $0 != place }
    }
    for _ in 0..<1 << most {
      let end = Int.random(in: 0...count, using: &generator)
      let kept = pending.map { keepsOrder && $0.isJournaled ? nil : Bool.random(using: &generator) }
      add { kept[$0] ?? ($0 < end) }
    }
    return images
  }
}
