import Glibc
import ProtectfsIO
import StoreFormat
import SystemPackage
import TestVectors
import Testing

@testable import FileProtection

/// Compares the contents of a protected file with a model in memory, around the edges of blocks and units.
@Suite struct ProtectedFileTests {
  /// Lengths at which something changes: blocks of 16, units of 4096, and the bytes that encode the length.
  static let edges = [0, 1, 5, 15, 16, 17, 33, 4080, 4081, 4095, 4096, 4097, 4112, 4113, 8191, 8193]

  /// The rule of FORMAT.md, computed independently: L rounded up to 16, and L mod 16 more bytes.
  static func backingLength(of length: Int) -> UInt64 {
    UInt64(length % 16 == 0 ? length : (length / 16 + 1) * 16 + length % 16)
  }

  private func expect(
    _ model: [UInt8], in file: ProtectedFile, _ backing: BackingFile, _ what: @autoclosure () -> String
  ) throws {
    let length = try backing.length
    #expect(file.currentLength == UInt64(model.count), "\(what())")
    #expect(length == Self.backingLength(of: model.count), "\(what())")
    let found = try file.read(0..<max(model.count + 100, 1))
    #expect(found == model, "\(what())")
    let reopened = try backing.open()
    #expect(reopened.currentLength == UInt64(model.count), "\(what()), opened again")
    let again = try reopened.read(0..<max(model.count + 100, 1))
    #expect(again == model, "\(what()), opened again")
  }

  /// From every edge to every edge. A longer plaintext may have a shorter backing file.
  @Test(arguments: edges) func resizes(from old: Int) throws {
    var random = RepeatableGenerator(seed: UInt64(old))
    for new in Self.edges {
      let backing = try BackingFile()
      let file = try backing.open()
      var model = random.bytes(old)
      try file.write(model, at: 0)
      try file.truncate(to: UInt64(new))
      model = Array(model.prefix(new)) + [UInt8](repeating: 0, count: max(0, new - old))
      try expect(model, in: file, backing, "\(old) to \(new)")
      // Bytes that were cut off do not come back.
      try file.truncate(to: UInt64(new + 50))
      try expect(model + [UInt8](repeating: 0, count: 50), in: file, backing, "\(old) to \(new) and 50 more")
    }
  }

  /// The bytes that make the backing length encode the true one may be in the next unit. A growth leaves a hole there
  /// all the same, or the room that was requested.
  @Test(arguments: [4081, 4088, 4095, 8177, 8191]) func growsByAHole(from old: Int) throws {
    let growths: [(String, (ProtectedFile) throws -> Void, UInt64)] = [
      ("a new length", { try $0.truncate(to: 1 << 20) }, 0),
      ("a write far behind", { try $0.write([1], at: (1 << 20) - 1) }, 8),
      ("room", { try $0.allocate([], offset: 1 << 19, length: 1 << 19) }, 1024),
      ("room, as zeros", { try $0.allocate([.zeroRange], offset: 1 << 19, length: 1 << 19) }, 1024),
    ]
    var random = RepeatableGenerator(seed: UInt64(old))
    for (name, grow, blocks) in growths {
      let backing = try BackingFile()
      let file = try backing.open()
      var model = random.bytes(old)
      try file.write(model, at: 0)
      try grow(file)
      try file.synchronize(dataOnly: false)
      let data = UInt64((old + 4095) / 4096 * 8)
      #expect(try backing.descriptor.status().blocks == data + blocks, "\(name): blocks of 512 bytes")
      #expect(try backing.length == 1 << 20, "\(name)")
      model += [UInt8](repeating: 0, count: 1 << 20 - old)
      if blocks == 8 { model[model.count - 1] = 1 }
      try expect(model, in: file, backing, name)
    }
  }

  /// Writes that begin and end at every edge, in files of every length.
  @Test(arguments: edges) func writes(inFileOf old: Int) throws {
    var random = RepeatableGenerator(seed: UInt64(old))
    for start in Self.edges {
      for end in Self.edges where end > start {
        let backing = try BackingFile()
        let file = try backing.open()
        var model = random.bytes(old)
        try file.write(model, at: 0)
        let bytes = random.bytes(end - start)
        try file.write(bytes, at: start)
        model += [UInt8](repeating: 0, count: max(0, end - model.count))
        model.replaceSubrange(start..<end, with: bytes)
        try expect(model, in: file, backing, "write \(start)..<\(end) in \(old)")
      }
    }
  }

  @Test(arguments: edges) func punchesAndZeroes(inFileOf old: Int) throws {
    var random = RepeatableGenerator(seed: UInt64(old))
    for start in Self.edges {
      for end in Self.edges where end > start {
        for mode in [AllocationMode([.punchHole, .keepSize]), [.zeroRange, .keepSize], [.zeroRange], [], [.keepSize]] {
          let backing = try BackingFile()
          let file = try backing.open()
          var model = random.bytes(old)
          try file.write(model, at: 0)
          try file.allocate(mode, offset: UInt64(start), length: UInt64(end - start))
          if !mode.contains(.keepSize) { model += [UInt8](repeating: 0, count: max(0, end - model.count)) }
          if !mode.isDisjoint(with: [.punchHole, .zeroRange]) {
            for index in start..<max(start, min(end, model.count)) { model[index] = 0 }
          }
          #expect(file.currentLength == UInt64(model.count), "\(mode) \(start)..<\(end) in \(old)")
          let found = try backing.open().read(0..<10_000)
          #expect(found == model, "\(mode) \(start)..<\(end) in \(old)")
        }
      }
    }
  }

  @Test(arguments: 1...25) func agreesWithAModel(seed: UInt64) throws {
    var random = RepeatableGenerator(seed: seed)
    let backing = try BackingFile()
    var file = try backing.open()
    var model: [UInt8] = []
    for step in 0..<300 {
      let near = Self.edges.randomElement(using: &random)! + Int.random(in: 0..<3, using: &random) * 4096
      let count =
        Bool.random(using: &random)
        ? Int.random(in: 1...40, using: &random) : Int.random(in: 1...12_000, using: &random)
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<4:
        let bytes = random.bytes(count)
        try file.write(bytes, at: near)
        model += [UInt8](repeating: 0, count: max(0, near + count - model.count))
        model.replaceSubrange(near..<near + count, with: bytes)
      case 4..<6:
        try file.truncate(to: UInt64(near))
        model = Array(model.prefix(near)) + [UInt8](repeating: 0, count: max(0, near - model.count))
      case 6:
        try file.allocate([.punchHole, .keepSize], offset: UInt64(near), length: UInt64(count))
        for index in min(near, model.count)..<min(near + count, model.count) { model[index] = 0 }
      case 7:
        try file.allocate([.zeroRange], offset: UInt64(near), length: UInt64(count))
        model += [UInt8](repeating: 0, count: max(0, near + count - model.count))
        for index in near..<near + count { model[index] = 0 }
      case 8:
        let found = try file.read(near..<near + count)
        #expect(found == Array(model.dropFirst(near).prefix(count)), "seed \(seed), step \(step)")
      default:
        file = try backing.open()
      }
      try #require(file.currentLength == UInt64(model.count), "seed \(seed), step \(step)")
      let length = try backing.length
      try #require(length == Self.backingLength(of: model.count), "seed \(seed), step \(step)")
    }
    try expect(model, in: file, backing, "seed \(seed)")
  }

  /// A power cut may leave the length of appended data without the data: zeros, as with any file system. Tested from
  /// every edge to every edge, with later operations on such a file.
  @Test(arguments: edges) func lengthsWithoutTheirData(from old: Int) throws {
    var random = RepeatableGenerator(seed: UInt64(old))
    for new in Self.edges where new > old && Self.backingLength(of: new) > Self.backingLength(of: old) {
      let backing = try BackingFile()
      var model = random.bytes(old)
      try backing.open().write(model, at: 0)
      try backing.descriptor.truncate(to: Self.backingLength(of: new))
      model += [UInt8](repeating: 0, count: new - old)
      let file = try backing.open()
      try expect(model, in: file, backing, "\(old), and \(new) by its length")
      let bytes = random.bytes(new / 2 + 1)
      try file.write(bytes, at: new / 2)
      model = Array(model.prefix(new / 2)) + bytes + model.dropFirst(new / 2 + bytes.count)
      try expect(model, in: file, backing, "\(old), and \(new) by its length, written")
      try file.truncate(to: 9000)
      try expect(model + [UInt8](repeating: 0, count: 9000 - model.count), in: file, backing, "\(old), \(new), grown")
    }
  }

  /// Bytes cut off by a shrink are no longer in the backing file, so no length that a power cut leaves brings them
  /// back.
  @Test(arguments: edges) func cutsOffForGood(from old: Int) throws {
    var random = RepeatableGenerator(seed: UInt64(old))
    for new in Self.edges where new < old {
      let backing = try BackingFile()
      let model = random.bytes(old)
      let file = try backing.open()
      try file.write(model, at: 0)
      try file.truncate(to: UInt64(new))
      try backing.descriptor.truncate(to: Self.backingLength(of: 9000))
      let found = try backing.open().read(0..<9000)
      let expected = Array(model.prefix(new)) + [UInt8](repeating: 0, count: 9000 - new)
      #expect(found == expected, "\(old) to \(new), then 9000 by its length")
    }
  }

  /// The same where the last unit that remains is a hole: the bytes that encode the length lie in the next one.
  @Test(arguments: [4081, 4090, 4095]) func cutsOffForGoodBehindAHole(at new: Int) throws {
    var random = RepeatableGenerator(seed: UInt64(new))
    let backing = try BackingFile()
    let file = try backing.open()
    try file.write(random.bytes(4096), at: 4096)
    try file.truncate(to: UInt64(new))
    try backing.descriptor.truncate(to: 8192)
    #expect(try backing.open().read(0..<8192) == [UInt8](repeating: 0, count: 8192))
  }

  /// A growth that fails has written behind the end, and takes it away.
  @Test func aFailedGrowthLeavesNothing() throws {
    for count in [20, 4090] {
      let backing = try BackingFile()
      let file = try backing.open()
      let model = [UInt8](repeating: 7, count: count)
      try file.write(model, at: 0)
      #expect(throws: Errno.self) { try file.truncate(to: 1 << 62) }
      #expect(try backing.length == Self.backingLength(of: count))
      try backing.descriptor.truncate(to: 8192)
      let found = try backing.open().read(0..<8192)
      #expect(found == model + [UInt8](repeating: 0, count: 8192 - count), "\(count)")
    }
  }

  /// The reported data and holes agree with the contents.
  @Test func seeks() throws {
    let backing = try BackingFile()
    let file = try backing.open()
    try file.truncate(to: 100_000)
    try file.write([1], at: 50_000)
    #expect(try file.seek(to: 0, .data) == 49_152)
    #expect(try file.seek(to: 49_500, .data) == 49_500)
    #expect(try file.seek(to: 49_152, .hole) == 53_248)
    #expect(try file.seek(to: 99_999, .hole) == 99_999)
    #expect(throws: Errno.noSuchAddressOrDevice) { try file.seek(to: 60_000, .data) }
    #expect(throws: Errno.noSuchAddressOrDevice) { try file.seek(to: 100_000, .hole) }
  }

  /// Lengths that no plaintext has: only S mod 16 = 0, or at least 16 more than that.
  @Test(arguments: 1...15) func impossibleLengths(_ length: UInt64) throws {
    let backing = try BackingFile()
    try backing.descriptor.truncate(to: length)
    #expect(throws: Errno.ioError) { _ = try backing.open() }
  }

  @Test func limits() throws {
    let backing = try BackingFile()
    let file = try backing.open()
    #expect(throws: Errno.fileTooLarge) { try file.truncate(to: UInt64(Int64.max)) }
    #expect(throws: Errno.fileTooLarge) { try file.write([1], at: Int(Int64.max) - 1) }
    #expect(throws: Errno.invalidArgument) { try file.allocate([], offset: 0, length: 0) }
    for mode in [AllocationMode.collapseRange, .insertRange, .punchHole] {
      #expect(throws: Errno.notSupportedOnSocket) { try file.allocate(mode, offset: 0, length: 4096) }
    }
    #expect(try file.read(0..<100) == [])
    #expect(file.currentLength == 0)
  }
}
