import Glibc
import ProtectfsIO
import SystemPackage

// What must hold after the daemon was killed: every change of names and attributes that was acknowledged, and all that
// was synchronised. Of what was written since, each byte is an old or a new one.
extension ModelWorker {
  /// Compares everything with what a crash may leave, and goes on from what it left. Nothing is open.
  func compareAfterCrash() throws {
    let possible = candidates.isEmpty ? [tree] : candidates
    candidates = []
    var differences: [String] = []
    for candidate in possible {
      tree = candidate
      forgetTimes(of: candidate, otherThan: possible)
      closeEverything()
      do {
        try adoptContents()
        try compareEverything()
        return try useNewFiles(otherThan: possible)
      } catch {
        if stage.sample.isCrashed {
          candidates = possible
          throw ModelInterruption()
        }
        guard let error = error as? ModelDifference else { throw error }
        differences.append(error.text)
      }
    }
    throw difference("after a crash: " + differences.joined(separator: "; or else: "))
  }

  /// A call that was cut short may have made the sidecar of a long name, and not the name yet: the times of the directories
  /// that it changes may have moved, whether it counts as done or not.
  private func forgetTimes(of candidate: ModelTree, otherThan others: [ModelTree]) {
    for (inode, node) in candidate.inodes where node.kind == .directory {
      let isChanged = others.contains { $0.inodes[inode]?.entries != node.entries }
      if isChanged { tree[inode].time = .unknown }
    }
  }

  /// A file whose creation was cut short may have no record yet. It is given one when it is opened for writing, with the
  /// class that its directory has then; so that is done before the directory's changes.
  private func useNewFiles(otherThan others: [ModelTree]) throws {
    for place in tree.places where tree[place.inode].kind == .file {
      guard others.contains(where: { $0.inodes[place.inode] == nil }) else { continue }
      do { _ = try OpenFile(path(place), O_WRONLY) } catch { throw difference("\(show(place)): \(error)") }
    }
  }

  /// Takes what is found of files that were changed since they were synchronised.
  private func adoptContents() throws {
    for place in tree.places where tree[place.inode].kind == .file {
      let node = tree[place.inode]
      // While a rekey is at work the time is the present.
      if !node.isTimeSynchronized || node.rekeys > 0 { tree[place.inode].time = .unknown }
    }
    for place in tree.places where tree[place.inode].kind == .file && !tree[place.inode].earlier.isEmpty {
      do {
        try adopt(place, OpenFile(path(place), O_RDONLY))
      } catch let error as Errno {
        throw difference("\(show(place)): \(Self.show(error))")
      }
    }
  }

  private func adopt(_ place: ModelPlace, _ file: OpenFile) throws {
    let node = tree[place.inode]
    let versions = [node.contents] + node.earlier
    let size = Int(try file.status().size)
    guard size >= versions.map(\.count).min()!, size <= versions.map(\.count).max()! else {
      throw difference("\(show(place)): \(size) bytes, which it never had")
    }
    var found = ModelContents()
    found.resize(to: size)
    // Far holes are the same in all versions but for what any of them has there.
    var position = 0
    while position < size {
      let end = min(size, position + ModelContents.pageSize * 32)
      let isHole = versions.allSatisfy { $0.firstData(in: position..<end) == nil }
      if position < 2 * Self.longest || !isHole {
        let bytes = try file.read(at: position, count: end - position)
        try expect(bytes, at: position, among: versions, place)
        found.write(bytes[...], at: position)
      }
      position = end
    }
    tree[place.inode].contents = found
    tree[place.inode].earlier = []
  }

  private func expect(_ bytes: [UInt8], at start: Int, among versions: [ModelContents], _ place: ModelPlace) throws {
    let known = versions.map { $0.bytes(in: start..<start + bytes.count) }
    if known.contains(bytes) { return }
    for (index, byte) in bytes.enumerated() {
      let isKnown = known.contains { index < $0.count ? $0[index] == byte : byte == 0 }
      guard isKnown else { throw difference("\(show(place)): byte \(start + index) is \(byte), which it never was") }
    }
  }
}
