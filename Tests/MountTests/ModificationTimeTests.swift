import Glibc
import LinuxIO
import SystemPackage
import Testing

extension MountTests {
  /// Modification times are the ones that programs saw, also when the kernel has forgotten the files.
  @Suite struct ModificationTimeTests {
    private struct Time: Equatable {
      let seconds: Int64
      let nanoseconds: Int64

      init(_ path: PathName) throws(Errno) {
        let status = try path.status()
        seconds = status.modification_seconds
        nanoseconds = status.modification_nanoseconds
      }
    }

    @Test func stay() throws {
      try Volume.with { volume in
        let paths = (0..<100).map { volume.path("file\($0)") }
        for (index, path) in paths.enumerated() {
          try path.write([UInt8](repeating: 1, count: 100 * index))
          switch index % 4 {
          case 1: try OpenFile(path, O_WRONLY | O_APPEND).append([1, 2, 3])
          case 2: try path.setTimes(seconds: 1_000_000_000, nanoseconds: 123_456_789)
          case 3: try path.truncate(to: 10)
          default: break
          }
        }
        let before = try paths.map { (path) throws(Errno) in try Time(path) }
        try volume.remount()
        #expect(try paths.map { (path) throws(Errno) in try Time(path) } == before)
        #expect(try before[2] == Time(paths[2]) && before[2].nanoseconds == 123_456_789)
      }
    }
  }
}
