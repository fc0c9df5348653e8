import Glibc
import ProtectfsIO
import SystemPackage

// Operations on contents, at the edges of blocks of 16 bytes and units of 4096, where lengths on disk change most.
extension FaultOperation {
  private static func file(_ d: PathName) -> PathName { d.appending("file") }

  /// A file with some bytes; those from `hole` on are a hole.
  @Sendable private static func make(_ d: PathName, _ count: Int, hole: Int? = nil) throws(Errno) {
    try file(d).write(pattern(5, count: hole ?? count))
    if hole != nil { try file(d).truncate(to: count) }
  }

  private static func truncate(_ old: Int, _ new: Int) -> FaultOperation {
    // A write completes the old last unit, and encodes a length of its own if the file will end behind it; or the file
    // is cut at the end of that unit, where what encodes the old length lies behind it.
    let endOfUnit = (old + 4095) & ~4095
    let isStepwise = old % 4096 != 0 && new > endOfUnit
    // After a shrink, what is behind the new length is cleared if possible.
    let passedOver: Set = new < old ? ["pread", "pwrite"] : []
    return .init("truncate \(old) to \(new)", isStepwise ? .bytes : .whole, passedOver: passedOver) { d throws(Errno) in
      try make(d, old)
    } run: { d throws(Errno) in
      try file(d).truncate(to: new)
    }
  }

  private static func truncateOnOpening(_ old: Int) -> FaultOperation {
    .init("open \(old) with O_TRUNC") { d throws(Errno) in
      try make(d, old)
    } run: { d throws(Errno) in
      _ = try OpenFile(file(d), O_WRONLY | O_TRUNC)
    }
  }

  static let resizings: [FaultOperation] =
    [
      (0, 1), (1, 0), (1, 16), (5, 16), (16, 5), (15, 17), (20, 4096), (100, 4095), (4095, 4096), (4095, 4097),
      (4095, 5000), (4096, 4097), (4097, 4096), (4097, 4095), (4111, 4112), (4100, 20_000), (20_000, 4100), (10_000, 3),
    ].map { truncate($0, $1) } + [truncateOnOpening(5000)]

  private static func write(
    _ name: String, _ old: Int, hole: Int? = nil, _ range: Range<Int>, _ flags: CInt = OpenFile.direct
  ) -> FaultOperation {
    var operation = FaultOperation("\(name): \(range) of \(old)", .bytes) { d throws(Errno) in
      try make(d, old, hole: hole)
    } run: { d throws(Errno) in
      let opened = try OpenFile(file(d), O_RDWR | flags)
      try opened.write(pattern(6, count: range.count), at: range.lowerBound)
      if flags == 0 { try opened.synchronize() }
    }
    operation.isCached = flags & OpenFile.direct == 0
    return operation
  }

  private static func allocate(
    _ name: String, _ old: Int, _ range: Range<Int>, _ mode: AllocationMode
  ) -> FaultOperation {
    .init("\(name): \(range) of \(old)", .bytes) { d throws(Errno) in
      try make(d, old)
    } run: { d throws(Errno) in
      try OpenFile(file(d), O_RDWR).allocate(mode, at: range.lowerBound, count: range.count)
    }
  }

  static let writings: [FaultOperation] = [
    write("direct write", 0, 0..<100),
    write("direct write", 5000, 10..<20),
    write("direct write", 5000, 4000..<4200),
    write("direct write", 100, 90..<110),
    write("direct write", 15, 15..<16),
    write("direct write", 4095, 4095..<4096),
    write("direct write", 4095, 4095..<5000),
    write("direct write", 4095, 9000..<9005),
    write("direct write", 100, 10_000..<10_003),
    write("direct write", 20_000, 100..<17_000),
    write("direct write", 100, 50..<30_000),
    write("direct write into a hole", 20_000, hole: 5, 5000..<5010),
    write("direct write into a hole", 20_000, hole: 5, 4096..<16_384),
    write("direct write into a hole", 20_000, hole: 5, 6000..<15_000),
    write("direct write into the end of a hole", 20_000, hole: 5, 19_000..<21_000),
    write("cached write", 5000, 10..<20, 0),
    write("cached write", 100, 50..<30_000, 0),
    write("cached write", 4095, 9000..<9005, 0),
    write("synchronous write", 4095, 4000..<9000, OpenFile.synchronous),
    allocate("fallocate", 5, 0..<16, []),
    allocate("fallocate", 4095, 100..<20_000, []),
    allocate("fallocate, kept size", 4095, 100..<20_000, [.keepSize]),
    allocate("punch", 20_000, 100..<17_000, [.punchHole, .keepSize]),
    allocate("punch", 20_000, 4096..<8192, [.punchHole, .keepSize]),
    allocate("punch to the end", 20_000, 15_000..<30_000, [.punchHole, .keepSize]),
    allocate("zero and grow", 4095, 100..<20_000, [.zeroRange]),
    .init("copy_file_range", .bytes) { d throws(Errno) in
      try make(d, 100)
    } run: { d throws(Errno) in
      let (source, target) = (try OpenFile(d.appending("neighbour"), O_RDONLY), try OpenFile(file(d), O_RDWR))
      guard try source.copyRange(from: 0, to: target, at: 50, count: 5000) == 5000 else { throw .partialWrite }
    },
  ]
}
