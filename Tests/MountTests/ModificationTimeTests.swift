import CSystemCalls
import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// Modification times are those that programs have seen, even after the kernel has forgotten the files.
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

    /// The kernel releases a file some time after close(2) has returned. A time set meanwhile is the later one.
    @Test func stayWhenSetAfterClosing() throws {
      try Volume.with { volume in
        let paths = (0..<2000).map { volume.path("file\($0)") }
        for path in paths {
          try path.write([UInt8](repeating: 1, count: 5000))
          try path.setTimes(seconds: 1_000_000_000, nanoseconds: 123_456_789)
        }
        try volume.remount()
        for path in paths { #expect(try Time(path).seconds == 1_000_000_000, "\(path)") }
      }
    }

    /// The daemon changes the backing file a little later than the kernel's time, which the kernel sends only if it has
    /// changed: not if two changes happen within one tick of its clock.
    @Test func stayAfterChangesPastTheCache() throws {
      typealias Change = (OpenFile) throws(Errno) -> Void
      let changes: [(name: String, flags: CInt, change: Change)] = [
        ("punch", 0, { file throws(Errno) in try file.allocate([.punchHole, .keepSize], at: 100, count: 9000) }),
        ("zero", 0, { file throws(Errno) in try file.allocate([.zeroRange], at: 100, count: 9000) }),
        ("allocate", 0, { file throws(Errno) in try file.allocate([], at: 0, count: 30_000) }),
        ("copy", 0, { file throws(Errno) in try file.copyRange(from: 0, to: file, at: 10_000, count: 5000) }),
        ("direct", OpenFile.direct, { file throws(Errno) in try file.write([1, 2, 3], at: 17) }),
        ("same length", 0, { file throws(Errno) in try file.truncate(to: Int(file.status().size)) }),
      ]
      try Volume.with { volume in
        var before: [(PathName, Time, String)] = []
        for (name, flags, change) in changes {
          for number in 0..<20 {
            let path = volume.path("\(name) \(number)")
            let file = try OpenFile(path, O_RDWR | O_CREAT | flags)
            try file.write([UInt8](repeating: 1, count: 20_000), at: 0)
            try change(file)
            // Closing makes the kernel send the time.
            _ = try OpenFile(path, O_RDONLY)
            try change(file)
            before.append((path, try Time(path), name))
          }
        }
        try volume.remount()
        for (path, time, name) in before { #expect(try Time(path) == time, "\(name)") }
      }
    }

    /// The daemon does not learn of the last closes: at umount(2) the kernel drops requests that wait to be sent, and
    /// does not wait for a RELEASE (fuse_conn_destroy in fs/fuse/inode.c).
    @Test func stayOfFilesStillOpenForTheDaemon() throws {
      try Volume.with { volume in
        let daemon = volume.processID
        defer { calls_kill(daemon, SIGCONT) }
        let paths = (0..<20).map { volume.path("file\($0)") }
        var mappings: [Mapping] = []
        let isDone = Atomic(false)
        let alarm = Thread(name: "alarm") {
          while !isDone.load(ordering: .relaxed) {
            usleep(20_000)
            calls_kill(daemon, SIGCONT)
          }
        }
        for path in paths {
          let file = try OpenFile(path, O_RDWR | O_CREAT)
          try file.write([UInt8](repeating: 1, count: 20_000), at: 0)
          _ = try OpenFile(path, O_RDONLY)
          // Mostly within the tick of the kernel's clock that it has sent. The daemon wakes up later.
          calls_kill(daemon, SIGSTOP)
          try file.allocate([.punchHole, .keepSize], at: 100, count: 9000)
          // Ends without a request to the daemon except the RELEASE.
          mappings.append(try Mapping(file, count: 4096, isWritable: false))
        }
        isDone.store(true, ordering: .relaxed)
        alarm.join()
        // The last stop may take effect after the call that it was for.
        calls_kill(daemon, SIGCONT)
        let before = try paths.map { (path) throws(Errno) in try Time(path) }
        calls_kill(daemon, SIGSTOP)
        mappings = []
        // With rings the kernel waits for the daemon there.
        let unmount = PendingCall { () throws(Errno) in try volume.mountPoint.unmount(isLazy: false) }
        for _ in 0..<500 where volume.isMounted { usleep(1000) }
        calls_kill(daemon, SIGCONT)
        #expect(try unmount.result() == nil)
        #expect(volume.waitForDaemon() == .exited(0))
        try volume.mount()
        #expect(try paths.map { (path) throws(Errno) in try Time(path) } == before)
      }
    }

    /// fsync(2) makes the time durable too, for files that are still open.
    @Test func lastWhenSynchronized() throws {
      try Volume.with { volume in
        let paths = (0..<50).map { volume.path("file\($0)") }
        let files = try paths.map { (path) throws(Errno) in try OpenFile(path, O_RDWR | O_CREAT) }
        for (path, file) in zip(paths, files) {
          try file.write([UInt8](repeating: 1, count: 5000), at: 0)
          _ = try OpenFile(path, O_RDONLY)
          try file.write([2], at: 1)
          try file.synchronize()
        }
        let before = try paths.map { (path) throws(Errno) in try Time(path) }
        volume.kill()
        try volume.mountPoint.unmount(isLazy: true)
        try volume.mount()
        #expect(try paths.map { (path) throws(Errno) in try Time(path) } == before)
        withExtendedLifetime(files) {}
      }
    }
  }
}
