import Glibc
import ProtectfsIO
import SystemPackage

// What must hold after the daemon was killed: every acknowledged change of names and attributes, and everything
// synchronised. Of later writes, each byte is old or new.
extension ModelWorker {
  /// Compares everything with what a crash may leave, and continues from the actual state. Nothing is open.
  func compareAfterCrash() throws {
    let possible = candidates.isEmpty ? [tree] : candidates
    candidates = []
    var differences: [String] = []
    for candidate in possible {
      tree = candidate
      tree.forgetVacated()
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

  /// An interrupted call may have created the sidecar of a long name, but not the name yet. The times of the
  /// directories that it changes may have moved, whether or not it counts as done.
  private func forgetTimes(of candidate: ModelTree, otherThan others: [ModelTree]) {
    for (inode, node) in candidate.inodes where node.kind == .directory {
      let isChanged = others.contains { $0.inodes[inode]?.entries != node.entries }
      if isChanged { tree[inode].time = .unknown }
    }
  }

  /// A file whose creation was interrupted may have no record yet. It gets one when it is opened for writing, with the
  /// class that its directory has then, so this is done before the directory changes.
  private func useNewFiles(otherThan others: [ModelTree]) throws {
    for place in tree.places where tree[place.inode].kind == .file {
      guard others.contains(where: { $0.inodes[place.inode] == nil }) else { continue }
      do { _ = try OpenFile(path(place), O_WRONLY) } catch { throw difference("\(show(place)): \(error)") }
    }
  }

  /// Adopts the actual contents of files that were changed since they were synchronised.
  private func adoptContents() throws {
    for place in tree.places where tree[place.inode].kind == .file {
      let node = tree[place.inode]
      // During a rekey the time is the current one.
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
    // Distant holes are the same in all versions, except where any version has data.
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
