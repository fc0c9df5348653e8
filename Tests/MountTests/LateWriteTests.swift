import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Calls of write(2) that are under way when a lock comes: the kernel has looked at the attributes for them, and asks
  /// no more until they end.
  @Suite struct LateWriteTests {
    /// It goes on when the lock has taken effect, and so does one that waits behind it. The lock names the file, and
    /// nobody reads what they write.
    @Test(arguments: LateWriter.Kernel.allCases) func outlastsTheLock(_ kernel: LateWriter.Kernel) throws {
      try LateWriter.with(kernel) { (volume, writer) in
        let second = try Program(
          [
            "python3", "-c",
            "import os, time; file = os.open('\(writer.path)', os.O_WRONLY); os.pwrite(file, b'd' * 65536, 0); "
              + "print('written', flush=True); time.sleep(600)",
          ], output: volume.directory.appending("second"))
        defer { second.send(SIGKILL) }
        while try !ProcessStatus(PathName("/proc/\(second.identifier)"))["State"].hasPrefix("D") { usleep(1000) }

        let lock = try Command.run(["lock", "--now", volume.mountPoint.description])
        #expect(lock.ending == .exited(26), "\(lock.output)")
        #expect(lock.output.contains("a write to each of these files was under way"), "\(lock.output)")
        #expect(lock.output.contains("inode \(try writer.file.status().inode) (class A)"), "\(lock.output)")
        writer.expectUnreadable()

        try writer.goOn()
        while !second.output.hasSuffix("\n") && second.poll() == nil { usleep(1000) }
        #expect(second.output == "written\n")
        writer.expectUnreadable()

        try volume.unlock()
        #expect(try writer.file.read(at: 0, count: 1) == LateWriter.written, "it was written before the lock")
        #expect(try writer.file.read(at: LateWriter.count, count: 1) == LateWriter.former, "it was written after it")
      }
    }

    /// What the kernel is writing back when the lock comes, for a program that has the file open. Before Linux 6.16 it
    /// writes copies of pages, to which none of the file leads.
    @Test(arguments: [LateWriter.Kernel.own, .earlier])
    func whatIsBeingWrittenBackIsKept(_ kernel: LateWriter.Kernel) throws {
      try kernel.withFaults { volume, faults in
        let contents = pattern(1, count: 8 << 20)
        let path = volume.path("file")
        try path.write("")
        try path.setProtectionClass(.complete)
        let file = try OpenFile(path, O_WRONLY)
        let (error, _) = faults.during(.slow, at: 1, of: .writes) { () throws(Errno) in
          try file.write(contents, at: 0)
          try file.beginWriteBack()
          do throws(ControlError) { try volume.lock() } catch { throw .ioError }
        }
        #expect(error == nil)
        try volume.unlock()
        try dropCaches()
        try expectSame(path.contents(), contents, "written back")
      }
    }

    /// The same for a file that is no longer open, nor mapped, when the mount goes.
    @Test(arguments: [true, false]) func whatIsBeingWrittenBackIsKeptByAnUnmount(isSignalled: Bool) throws {
      try LateWriter.Kernel.earlier.withFaults { volume, faults in
        let path = volume.path("file")
        // Where there are copies, the file's last release sends the first 64, and waits for them.
        let pages = ProtectfsIO.Process.kernelVersion < (6, 16) ? 200 : 8
        try path.write(String(repeating: "a", count: pages * 8192))
        let program = """
          import ctypes, os
          libc = ctypes.CDLL(None)
          libc.mmap.restype = ctypes.c_void_p
          file = os.open('\(path)', os.O_RDWR)
          size = ctypes.c_size_t(\(pages * 8192))
          address = libc.mmap(None, size, 3, 1, file, ctypes.c_long(0))
          os.close(file)
          for page in range(\(pages)): ctypes.memset(address + page * 8192, 0x62, 4096)
          assert libc.munmap(ctypes.c_void_p(address), size) == 0
          """
        let (error, _) = faults.during(.slow, at: 1, of: .writes) { () throws(Errno) in
          do {
            let written = try Program.run(["python3", "-c", program])
            #expect(written.succeeded, "\(written.output)")
            if isSignalled {
              #expect(calls_kill(volume.processID, SIGTERM) == 0)
            } else {
              let unmounted = try Command.run(["unmount", volume.mountPoint.description])
              #expect(unmounted.succeeded, "\(unmounted.output)")
            }
          } catch {
            throw .ioError
          }
          #expect(volume.waitForDaemon() == .exited(0))
        }
        #expect(error == nil)
        try volume.mount()
        try volume.unlock()
        let contents = try path.contents()
        let lost = (0..<pages).filter { contents[$0 * 8192] != LateWriter.written[0] }
        #expect(lost.isEmpty, "pages \(lost)")
      }
    }

    /// A later lock finds nothing to lock, and names it all the same.
    @Test func isNamedByALaterLock() throws {
      try LateWriter.with { (volume, writer) in
        for _ in 0..<2 {
          let lock = try Command.run(["lock", "--now", volume.mountPoint.description])
          #expect(lock.ending == .exited(26), "\(lock.output)")
        }
        try writer.goOn()
        writer.expectUnreadable()
        let isForgotten = eventually {
          (try? Command.run(["lock", "--now", volume.mountPoint.description]))?.ending == .exited(0)
        }
        #expect(isForgotten)
      }
    }

    /// If the daemon is killed meanwhile, neither its socket nor its hold on the store stays.
    @Test func outlastsTheDaemon() throws {
      try LateWriter.with { (volume, writer) in
        #expect(try Command.run(["lock", "--now", volume.mountPoint.description]).ending == .exited(26))
        let beside = try Unmounter(of: volume.processID)
        #expect(calls_kill(volume.processID, SIGKILL) == 0)
        #expect(beside.ends())
        let lock = try Command.run(["lock", "--now", volume.mountPoint.description])
        #expect(lock.ending == .exited(13), "\(lock.output)")
        let check = try Command.run([
          "fsck", volume.backing.description, "--device-key", volume.deviceKey.description, "--passcode-file",
          volume.passcodeFile.description,
        ])
        #expect(check.succeeded, "\(check.output)")
        let unmounted = try Command.run(["unmount", volume.mountPoint.description])
        #expect(unmounted.succeeded && !volume.isMounted, "\(unmounted.output)")
      }
    }

    /// A lock waits for it, and keeps all of it.
    @Test(arguments: LateWriter.Kernel.allCases) func isWaitedFor(_ kernel: LateWriter.Kernel) throws {
      try LateWriter.with(kernel, ["-o", "push_timeout=600"]) { (volume, writer) in
        let other = volume.path("other")
        try other.write("")
        let lock = try Program(
          [Command.path, "lock", "--now", volume.mountPoint.description], output: volume.directory.appending("lock"))
        while (try? OpenFile(other, O_RDONLY)) != nil { usleep(1000) }
        for _ in 0..<50 where lock.poll() == nil { usleep(10_000) }
        #expect(lock.poll() == nil, "\(lock.output)")
        try writer.goOn()
        #expect(lock.wait() == .exited(0), "\(lock.output)")
        writer.expectUnreadable()
        try volume.unlock()
        #expect(try writer.file.read(at: LateWriter.count, count: 1) == LateWriter.last)
      }
    }
  }
}

/// A process in a write(2) to a file of class A whose last page does not arrive: it is that of a file on another mount,
/// whose daemon is stopped.
struct LateWriter {
  /// How much of the write is in memory.
  static let count = 4 << 20
  static let former = Array("a".utf8)
  static let written = Array("b".utf8)
  static let last = Array("c".utf8)
  private static let page = 4096

  let path: PathName
  let file: OpenFile
  private let program: Program
  private let source: Volume

  /// For which kernel the daemon waits: this one, one where it does by the file's path, or one that writes copies of
  /// pages back.
  enum Kernel: String, CaseIterable {
    case own = "OWN", later = "LATER", earlier = "EARLIER"

    func run(_ body: () throws -> Void) throws {
      let variable = "PROTECTFS_TEST_\(rawValue)_KERNEL"
      unsafe setenv(variable, "1", 1)
      defer { unsafe unsetenv(variable) }
      try body()
    }

    func withFaults(_ body: (Volume, Faults) throws -> Void) throws { try run { try Volume.withFaults([], body) } }
  }

  static func with(
    _ kernel: Kernel = .own, _ options: [String] = [], _ body: (Volume, LateWriter) throws -> Void
  ) throws {
    try kernel.run {
      try Volume.with(options + ["-o", "allow_other"], defaultClass: .complete) { volume in
        try Volume.with { source in
          try source.path("source").write(String(repeating: "c", count: page))
          // Its page is not in memory then.
          try source.remount()
          try source.unlock()
          let writer = try LateWriter(volume, source)
          defer {
            _ = calls_kill(source.processID, SIGCONT)
            writer.program.send(SIGKILL)
            _ = writer.program.wait()
          }
          try body(volume, writer)
        }
      }
    }
  }

  private init(_ volume: Volume, _ source: Volume) throws {
    let path = volume.path("file")
    file = try OpenFile(path, O_RDWR | O_CREAT)
    try file.write([UInt8](repeating: Self.former[0], count: Self.count + Self.page), at: 0)
    try file.synchronize()
    (self.path, self.source) = (path, source)
    let ready = volume.directory.appending("ready")
    program = try Program(
      [
        "python3", "-c",
        """
        import mmap, os, time
        source = os.open('\(source.path("source"))', os.O_RDONLY)
        last = memoryview(mmap.mmap(source, \(Self.page), prot=mmap.PROT_READ))
        file = os.open('\(path)', os.O_WRONLY)
        os.mkdir('\(ready)')
        while os.path.exists('\(ready)'): time.sleep(0.01)
        print(os.pwritev(file, [b'b' * \(Self.count), last], 0), flush=True)
        time.sleep(600)
        """,
      ], output: volume.directory.appending("writer"))
    while !ready.exists, program.poll() == nil { usleep(1000) }
    try #require(calls_kill(source.processID, SIGSTOP) == 0)
    try ready.removeDirectory()
    while try file.read(at: Self.count - 1, count: 1) != Self.written {
      try #require(program.poll() == nil, "\(program.output)")
      usleep(1000)
    }
  }

  /// Lets the last page arrive, and waits for the end of the write(2), which reports success. The file stays open: when
  /// it is closed, the kernel writes its pages back.
  func goOn() throws {
    #expect(calls_kill(source.processID, SIGCONT) == 0)
    while !program.output.hasSuffix("\n") && program.poll() == nil { usleep(1000) }
    #expect(program.output == "\(Self.count + Self.page)\n")
  }

  /// Nothing of the file can be read soon: no page is in memory.
  func expectUnreadable(sourceLocation: SourceLocation = #_sourceLocation) {
    for offset in [0, Self.count] {
      let deadline = ContinuousClock.now + .seconds(20)
      var found: Errno?
      repeat {
        found = failure { () throws(Errno) in _ = try file.read(at: offset, count: 1) }
        if found == nil { usleep(10_000) }
      } while found == nil && ContinuousClock.now < deadline
      #expect(found == .permissionDenied, "at \(offset)", sourceLocation: sourceLocation)
    }
  }
}
