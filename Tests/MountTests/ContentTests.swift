import Contract
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Contents at the edges of blocks and units. ModelTests makes random calls.
  @Suite struct ContentTests {
    /// The backing length encodes the plaintext's, at every length around the edges.
    @Test func backingLengths() throws {
      try Volume.with { volume in
        for length in [
          0, 1, 5, 15, 16, 17, 31, 32, 4080, 4081, 4095, 4096, 4097, 4111, 4112, 4113, 8191, 8192, 100_001,
        ] {
          let path = volume.path("\(length)")
          try path.write(pattern(length, count: length))
          try OpenFile(path, O_RDONLY).synchronize()
          let backing = try volume.backingFile(of: path).status()
          let expected =
            if TestedStores.areAuthenticated {
              // Page 0, the page of ends, and the others; of the last one the remainder (FORMAT.md, section 18).
              length == 0 ? 0 : (length <= 4064 ? 4096 : (length + 4095) / 4096 * 4096 + 4096) + length % 4096
            } else {
              length % 16 == 0 ? length : (length / 16 + 1) * 16 + length % 16
            }
          #expect(backing.size == UInt64(expected), "\(length)")
        }
      }
    }

    @Test func sparseFilesStaySparse() throws {
      try Volume.with { volume in
        let path = volume.path("sparse")
        let file = try OpenFile(path, O_RDWR | O_CREAT)
        try file.truncate(to: 1 << 30)
        try file.write([1], at: 500 << 20)
        try file.synchronize()
        #expect(try path.status().size == 1 << 30)
        #expect(try path.status().blocks < 100)
        #expect(try file.seek(to: 0, .data) == 500 << 20)
        #expect(try file.seek(to: 500 << 20, .hole) == (500 << 20) + 4096)
        #expect(try file.read(at: 300 << 20, count: 10) == [UInt8](repeating: 0, count: 10))
        #expect(throws: Errno.noSuchAddressOrDevice) { try file.seek(to: 600 << 20, .data) }
        try file.allocate([.punchHole, .keepSize], at: 0, count: 1 << 30)
        #expect(try path.status().blocks < 8)
        for mode in [AllocationMode.collapseRange, .insertRange] {
          #expect(throws: Errno.notSupportedOnSocket) { try file.allocate(mode, at: 4096, count: 4096) }
        }
      }
    }

    /// Offsets that no file can have.
    @Test func limits() throws {
      try Volume.with { volume in
        let file = try OpenFile(volume.path("file"), O_RDWR | O_CREAT)
        #expect(failure { () throws(Errno) in try file.truncate(to: Int.max) } != nil)
        #expect(failure { () throws(Errno) in try file.allocate([], at: Int.max - 100, count: 50) } != nil)
        #expect(throws: Errno.invalidArgument) { try file.truncate(to: -1) }
        #expect(try file.status().size == 0)
        try file.write([1], at: 1 << 40)
        #expect(try file.read(at: (1 << 40) - 1, count: 5) == [0, 1])
        // The kernel does not know our limit and accepts the write into its cache: fsync must not report success.
        let far = try OpenFile(volume.path("far"), O_RDWR | O_CREAT)
        #expect(
          failure { () throws(Errno) in
            try far.write([1], at: Int.max - 10)
            try far.synchronize()
          } != nil)
      }
    }
  }
}
