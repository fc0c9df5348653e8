import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Calls on contents, by descriptor and by name.
extension ModelWorker {
  private func refusal(_ inode: Int) -> (LockState) -> Errno? {
    let fileClass = tree[inode].fileClass!
    return { ModelContract.transfers(fileClass, in: $0) ? nil : .permissionDenied }
  }

  private func refusalByName(_ inode: Int) -> (LockState) -> Errno? {
    let fileClass = tree[inode].fileClass!
    return { ModelContract.opens(fileClass, in: $0) ? nil : .permissionDenied }
  }

  func open() throws {
    guard let place = place([.file]) else { return try createFile() }
    let access = [O_RDONLY, O_RDWR, O_RDWR, O_WRONLY].randomElement(using: &random)!
    var flags = access | [0, 0, 0, OpenFile.direct, OpenFile.synchronous].randomElement(using: &random)!
    let appends = access != O_RDONLY && chance(20)
    let truncates = access != O_RDONLY && !appends && chance(10)
    if appends { flags |= O_APPEND }
    if truncates { flags |= O_TRUNC }
    let path = path(place)
    var file: OpenFile?
    let isOpen = try attempt(
      "open", "\(show(place)) with flags \(String(flags, radix: 8)) as handle", failing: refusalByName(place.inode),
      call: { file = try OpenFile(path, flags) }, apply: { if truncates { $0.resize(place.inode, to: 0) } })
    guard isOpen, let file else { return }
    addHandle(file, place.inode, reads: access != O_WRONLY, writes: access != O_RDONLY, appends: appends)
  }

  func read() throws {
    guard let handle = handle(where: \.reads) else { return try open() }
    let range = range()
    var found: [UInt8] = []
    // At the end of a file the kernel answers by itself, since there is nothing to read.
    let isRead = try attempt(
      "read", "\(show(handle)) \(range)", failing: refusal(handle.inode),
      mayPass: range.lowerBound >= tree[handle.inode].contents.count,
      call: { found = try handle.file.read(at: range.lowerBound, count: range.count) })
    if isRead { try compare(found, handle.inode, range) }
  }

  /// If the lock came in between, what was read before it is returned.
  func compare(_ found: [UInt8], _ inode: Int, _ range: Range<Int>) throws {
    statistics.comparisons += 1
    let expected = tree[inode].contents.bytes(in: range)
    if found == expected || wasDisturbed && expected.starts(with: found) { return }
    let index = zip(found, expected).enumerated().first { $0.element.0 != $0.element.1 }
    throw difference(
      "read \(found.count) bytes of \(expected.count)"
        + (index.map { ", at \(range.lowerBound + $0.offset) \($0.element.0) instead of \($0.element.1)" } ?? ""))
  }

  func write() throws {
    guard let handle = handle(where: { $0.writes && !$0.appends }) else { return try open() }
    let range = range()
    let bytes = random.bytes(range.count)
    try transfer(bytes, "write", handle, at: range.lowerBound) { () throws(Errno) in
      try handle.file.writePart(bytes, at: range.lowerBound)
    }
  }

  func append() throws {
    guard let handle = handle(where: \.appends) else { return try open() }
    let bytes = random.bytes(1 + offset(upTo: 5000))
    let end = tree[handle.inode].contents.count
    guard end + bytes.count <= Self.longest else { return try truncate() }
    try transfer(bytes, "append", handle, at: end) { () throws(Errno) in try handle.file.appendPart(bytes) }
  }

  /// If the lock came in between, only a part may have been accepted.
  private func transfer(
    _ bytes: [UInt8], _ kind: String, _ handle: ModelHandle, at offset: Int, _ call: () throws(Errno) -> Int
  ) throws {
    var written = bytes.count
    try attempt(
      kind, "\(show(handle)) \(offset)..<\(offset + bytes.count)", failing: refusal(handle.inode),
      touching: handle.inode, call: { written = try call() },
      apply: { $0.change(handle.inode) { $0.write(bytes[..<written], at: offset) } })
    if written < bytes.count, !wasDisturbed { throw difference("wrote \(written) bytes of \(bytes.count)") }
  }

  func truncate() throws {
    let length = length()
    if let handle = handle(where: \.writes), chance(60) {
      let old = tree[handle.inode].contents.count
      try attempt(
        "ftruncate", "\(show(handle)) from \(old) to \(length)", failing: refusal(handle.inode),
        call: { try handle.file.truncate(to: length) }, apply: { $0.resize(handle.inode, to: length) })
    } else if let place = place([.file]) {
      let path = path(place)
      try attempt(
        "truncate", "\(show(place)) from \(tree[place.inode].contents.count) to \(length)",
        failing: refusalByName(place.inode), call: { try path.truncate(to: length) },
        apply: { $0.resize(place.inode, to: length) })
    }
  }

  private static let allocations: [(name: String, mode: AllocationMode, clears: Bool, grows: Bool)] = [
    ("punch", [.punchHole, .keepSize], true, false), ("punch", [.punchHole, .keepSize], true, false),
    ("zero", [.zeroRange, .keepSize], true, false), ("zero and grow", [.zeroRange], true, true),
    ("allocate", [], false, true), ("allocate beyond", [.keepSize], false, false),
  ]

  func allocate() throws {
    guard let handle = handle(where: \.writes) else { return try open() }
    let kind = Self.allocations.randomElement(using: &random)!
    let range = range()
    try attempt(
      kind.name, "\(show(handle)) \(range)", failing: refusal(handle.inode), touching: handle.inode,
      call: { try handle.file.allocate(kind.mode, at: range.lowerBound, count: range.count) },
      apply: { tree in
        let length = tree[handle.inode].contents.count
        tree.change(handle.inode, time: tree[handle.inode].time.orLater(tree.now)) { contents in
          if kind.grows, range.upperBound > length { contents.resize(to: range.upperBound) }
          if kind.clears { contents.clear(range) }
        }
      })
  }

  func copy() throws {
    guard let source = handle(where: \.reads), let target = handle(where: { $0.writes && !$0.appends }) else {
      return try open()
    }
    let range = range()
    let offset = offset(upTo: Self.longest - 1)
    // The kernel refuses overlapping ranges.
    if source.inode == target.inode, offset < range.upperBound, range.lowerBound < offset + range.count { return }
    let bytes = tree[source.inode].contents.bytes(in: range)
    let (reading, writing) = (refusal(source.inode), refusal(target.inode))
    var copied = bytes.count
    try attempt(
      "copy", "\(show(source)) \(range) to \(show(target)) at \(offset)",
      failing: { bytes.isEmpty ? nil : reading($0) ?? writing($0) }, touching: target.inode,
      call: {
        copied = try source.file.copyRange(from: range.lowerBound, to: target.file, at: offset, count: range.count)
      },
      apply: { tree in
        guard copied > 0 else { return }
        tree.change(target.inode) { $0.write(bytes[..<min(copied, bytes.count)], at: offset) }
      })
    guard copied == bytes.count || wasDisturbed && copied < bytes.count else {
      throw difference("copied \(copied) bytes of \(bytes.count)")
    }
  }

  /// Data may be reported for zeros, but a hole only for zeros.
  func seek() throws {
    guard let handle = handles.randomElement(using: &random) else { return try open() }
    let start = offset(upTo: Self.longest)
    let contents = tree[handle.inode].contents
    guard start < contents.count else {
      let expected: Errno? = .noSuchAddressOrDevice
      try attempt("seek", "\(show(handle)) behind the end", failing: { _ in expected }) {
        _ = try handle.file.seek(to: start, chance(50) ? .hole : .data)
      }
      return
    }
    try attempt("seek", "\(show(handle)) from \(start)") {
      let hole = try handle.file.seek(to: start, .hole)
      guard hole >= start, hole <= contents.count else { throw difference("a hole at \(hole)") }
      var data = try handle.file.nextData(from: start) ?? contents.count
      if let index = contents.firstData(in: start..<data) {
        throw difference("data at \(index) was passed over: from \(start), data at \(data)")
      }
      // A reported hole contains no data up to where data is reported.
      if hole < contents.count, hole > start {
        data = try handle.file.nextData(from: hole) ?? contents.count
        if let index = contents.firstData(in: hole..<data) {
          throw difference("data at \(index), in a hole at \(hole)")
        }
      }
    }
    statistics.comparisons += 1
  }

  func synchronize() throws {
    guard let handle = handles.randomElement(using: &random) else { return try open() }
    let isDataOnly = chance(30)
    try attempt(
      isDataOnly ? "fdatasync" : "fsync", show(handle),
      call: { if isDataOnly { try handle.file.synchronizeData() } else { try handle.file.synchronize() } },
      apply: { tree in
        tree[handle.inode].earlier = []
        if !isDataOnly { tree[handle.inode].isTimeSynchronized = true }
      })
  }

  func close() throws {
    guard !handles.isEmpty else { return }
    let index = Int.random(in: 0..<handles.count, using: &random)
    note("close \(show(handles[index]))")
    handles.remove(at: index)
    forgetClosed()
  }
}

extension ModelTree {
  /// Sets the length; ftruncate(2) to the same one may count as a modification, truncate(2) does not.
  mutating func resize(_ inode: Int, to length: Int) {
    let time = self[inode].contents.count == length ? self[inode].time.orLater(now) : now
    change(inode, time: time) { $0.resize(to: length) }
  }
}

extension OpenFile {
  /// The next data at or after an offset; `nil` if there is none up to the end.
  func nextData(from offset: Int) throws(Errno) -> Int? {
    do throws(Errno) { return try seek(to: offset, .data) } catch .noSuchAddressOrDevice { return nil }
  }

  /// Writes, and returns how much was accepted.
  func writePart(_ bytes: [UInt8], at offset: Int) throws(Errno) -> Int {
    try check(
      unsafe bytes.withUnsafeBytes { unsafe calls_pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset)) })
  }

  /// Writes at the end (O_APPEND), and returns how much was accepted.
  func appendPart(_ bytes: [UInt8]) throws(Errno) -> Int {
    try check(unsafe bytes.withUnsafeBytes { unsafe calls_write(descriptor, $0.baseAddress, $0.count) })
  }
}
