import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Shared mappings. A fault that would kill a program is an EFAULT here.
extension ModelWorker {
  private func fault(_ inode: Int) -> (LockState) -> Errno? {
    let fileClass = tree[inode].fileClass!
    return { ModelContract.transfers(fileClass, in: $0) ? nil : .badAddress }
  }

  func map() throws {
    guard let handle = handle(where: { $0.reads && $0.writes }) else { return try open() }
    let count = min(tree[handle.inode].contents.count, Self.longest)
    guard count > 0 else { return }
    var mapping: Mapping?
    try attempt("mmap", "\(show(handle)), \(count) bytes", call: { mapping = try Mapping(handle.file, count: count) })
    if let mapping { addMapping(mapping, handle.inode) }
  }

  /// A mapping, and a range of it that is in the file and on few pages.
  private func mappedRange() throws -> (ModelMapping, Range<Int>)? {
    guard let mapping = mappings.randomElement(using: &random) else {
      try map()
      return nil
    }
    let count = min(mapping.mapping.count, tree[mapping.inode].contents.count)
    let range = range().clamped(to: 0..<count)
    return range.isEmpty ? nil : (mapping, range.lowerBound..<min(range.upperBound, range.lowerBound + 10_000))
  }

  func readMapping() throws {
    guard let (mapping, range) = try mappedRange() else { return }
    var found: [UInt8] = []
    let isRead = try attempt(
      "mapped read", "mapping \(mapping.number) (inode \(mapping.inode)) \(range)", failing: fault(mapping.inode),
      call: { found = try mapping.mapping.read(at: range.lowerBound, count: range.count) })
    if isRead { try compare(found, mapping.inode, range) }
  }

  /// Page by page: a fault on the second leaves what was written to the first.
  func writeMapping() throws {
    guard let (mapping, range) = try mappedRange() else { return }
    var start = range.lowerBound
    while start < range.upperBound {
      let end = min(range.upperBound, (start / 4096 + 1) * 4096)
      let bytes = random.bytes(end - start)
      let isWritten = try attempt(
        "mapped write", "mapping \(mapping.number) (inode \(mapping.inode)) \(start)..<\(end)",
        failing: fault(mapping.inode), call: { try mapping.mapping.write(bytes, at: start) },
        apply: { tree in
          // Only the first write to a page moves the time.
          let time = tree[mapping.inode].time.orLater(tree.now)
          tree.change(mapping.inode, time: time) { $0.write(bytes[...], at: start) }
        })
      guard isWritten else { return }
      start = end
    }
    if chance(30) {
      try attempt("msync", "mapping \(mapping.number)", call: { try mapping.mapping.synchronize() })
    }
  }

  func unmap() throws {
    guard !mappings.isEmpty else { return }
    let index = Int.random(in: 0..<mappings.count, using: &random)
    note("munmap mapping \(mappings[index].number)")
    mappings.remove(at: index)
    forgetClosed()
  }
}
