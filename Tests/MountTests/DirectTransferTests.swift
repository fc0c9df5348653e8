import CSystemCalls
import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// Transfers past the page cache together with transfers through it: everyone reads what was written last.
  @Suite struct DirectTransferTests {
    private static let count = 1 << 18

    private func contents(_ round: Int) -> [UInt8] { [UInt8](repeating: UInt8(round & 0xFF), count: Self.count) }

    /// `write` writes past the cache while another descriptor and a mapping are read continuously.
    private func compare(
      rounds: Int, _ write: (OpenFile, [UInt8], _ round: Int) throws(Errno) -> Void
    ) throws {
      try Volume.with { volume in
        let path = volume.path("file")
        try path.write(contents(0))
        let direct = try OpenFile(path, O_RDWR | OpenFile.direct)
        let buffered = try OpenFile(path, O_RDONLY)
        let mapping = try Mapping(buffered, count: Self.count, isWritable: false)
        try withReaders(2, of: buffered) {
          for round in 1...rounds {
            let expected = contents(round)
            try write(direct, expected, round)
            #expect(try buffered.read(at: 0, count: Self.count) == expected, "round \(round), read(2)")
            #expect(try mapping.read(at: 0, count: Self.count) == expected, "round \(round), mapped")
            #expect(try direct.readDirectly(at: 0, count: Self.count) == expected, "round \(round), past the cache")
          }
        }
      }
    }

    private func withReaders(_ count: Int, of file: OpenFile, _ body: () throws -> Void) throws {
      let ending = SharedFlag()
      let threads = (0..<count).map { _ in
        Thread(name: "reader") {
          while !ending.isSet { _ = try? file.read(at: 0, count: Self.count) }
        }
      }
      defer {
        ending.set()
        for thread in threads { thread.join() }
      }
      try body()
    }

    @Test func writesThatAreWaitedFor() throws {
      try compare(rounds: 30) { (file, bytes, _) throws(Errno) in try file.writeDirectly(bytes, at: 0) }
    }

    /// io_submit(2): a read between its start and end brings pages into the cache, which must not stay.
    @Test func asynchronousWrites() throws {
      try compare(rounds: 60) { (file, bytes, round) throws(Errno) in
        try file.writeAsynchronously(bytes, at: 0, pieces: round % 2 == 0 ? 1 : 8)
      }
    }

    /// What was written through the cache can be read past it, and the other way round.
    @Test func turnByTurn() throws {
      try Volume.with { volume in
        let path = volume.path("file")
        try path.write(contents(0))
        var expected = contents(0)
        do {
          let (direct, buffered) = (try OpenFile(path, O_RDWR | OpenFile.direct), try OpenFile(path, O_RDWR))
          for round in 1...40 {
            let start = (round * 5) % 32 * 4096
            let bytes = [UInt8](repeating: UInt8(round), count: 3 * 4096)
            switch round % 3 {
            case 0: try buffered.write(bytes, at: start)
            case 1: try direct.writeDirectly(bytes, at: start)
            default: try direct.writeAsynchronously(bytes, at: start, pieces: 3)
            }
            expected.replaceSubrange(start..<start + bytes.count, with: bytes)
            #expect(try buffered.read(at: 0, count: Self.count) == expected, "round \(round), through the cache")
            #expect(try direct.readDirectly(at: 0, count: Self.count) == expected, "round \(round), past it")
          }
        }
        try volume.remount()
        try volume.unlock()
        #expect(try path.contents() == expected)
      }
    }
  }
}

private final class SharedFlag: Sendable {
  private let flag = Atomic(false)
  var isSet: Bool { flag.load(ordering: .acquiring) }
  func set() { flag.store(true, ordering: .releasing) }
}

extension OpenFile {
  /// From memory with the alignment that O_DIRECT needs.
  func writeDirectly(_ bytes: [UInt8], at offset: Int) throws(Errno) {
    let written = try unsafe aligned(bytes.count) { buffer in
      unsafe buffer.copyBytes(from: bytes)
      return unsafe calls_pwrite(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
    }
    guard written.count == bytes.count else { throw .partialWrite }
  }

  func readDirectly(at offset: Int, count: Int) throws(Errno) -> [UInt8] {
    let read = try unsafe aligned(count) { unsafe calls_pread(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
    return Array(read.bytes[..<read.count])
  }

  /// By io_submit(2), in `pieces` concurrent writes. Returns when all are done.
  func writeAsynchronously(_ bytes: [UInt8], at offset: Int, pieces: Int) throws(Errno) {
    let written = try unsafe aligned(bytes.count) { buffer in
      unsafe buffer.copyBytes(from: bytes)
      return unsafe calls_submit_writes(descriptor, buffer.baseAddress, buffer.count, off_t(offset), UInt32(pieces))
    }
    guard written.count == bytes.count else { throw .partialWrite }
  }

  private func aligned(
    _ count: Int, _ call: (UnsafeMutableRawBufferPointer) -> Int
  ) throws(Errno) -> (count: Int, bytes: [UInt8]) {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 4096)
    defer { unsafe buffer.deallocate() }
    let result = try check(unsafe call(buffer))
    return unsafe (result, Array(buffer))
  }
}
