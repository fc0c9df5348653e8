import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// What the kernel keeps of class A when the daemon of an unlocked mount was killed.
  @Suite struct KilledDaemonTests {
    @Test(Held.isPossible, arguments: Mounter.all) func thePagesGo(_ mounter: Mounter) throws {
      try mounter.withVolume { volume in
        let held = try Held(volume, mounter)
        defer { held.end() }
        let beside = try Unmounter(of: volume.processID)
        volume.kill()
        #expect(beside.ends())
        #expect(held.tryToRead() == "read: nothing, mapping: nothing", "\(held.output)")
        // There is nothing to lock, and the mount point stays covered, so nothing is written below it by mistake.
        let result = try Program.run(mounter.launcher + [Command.path, "lock", volume.mountPoint.description])
        #expect(result.ending == .exited(13), "\(result.output)")
        #expect(volume.isMounted)
        let unmounted = try Program.run(mounter.launcher + [Command.path, "unmount", volume.mountPoint.description])
        #expect(unmounted.succeeded && !volume.isMounted, "\(unmounted.output)")
        #expect(held.tryToRead() == "read: nothing, mapping: nothing", "\(held.output)")
      }
    }

    /// The directory of the mark is the user's. What is no file there keeps nobody waiting, and says nothing.
    @Test(.enabled(if: geteuid() == 0)) func aFIFOIsNoMark() throws {
      try Volume.with { volume in
        let beside = try Unmounter(of: volume.processID)
        volume.kill()
        #expect(beside.ends())
        let socket = ControlSocket.name(forMountPoint: volume.mountPoint.description)
        let mark = PathName("\(ControlSocket.directories(of: 0)[0])/\(socket.dropLast(".sock".count)).dropped")
        try mark.unlink()
        try mark.makeNode(mode: S_IFIFO | 0o600)
        defer { try? mark.unlink() }
        let result = try Program.run([Command.path, "lock", volume.mountPoint.description])
        #expect(result.ending == .exited(13), "\(result.output)")
      }
    }

    /// Data that a program has written and the kernel has not is lost, and blocks no one.
    @Test func dirtyPagesGoToo() throws {
      try Volume.with { volume in
        let path = volume.path("file")
        try path.write([UInt8](repeating: 1, count: 1 << 20))
        try path.setProtectionClass(.complete)
        let file = try OpenFile(path, O_RDWR)
        let mapping = try Mapping(file, count: 1 << 20)
        for offset in stride(from: 0, to: 1 << 20, by: 4096) { try mapping.write([2], at: offset) }
        let beside = try Unmounter(of: volume.processID)
        volume.kill()
        #expect(beside.ends())
        #expect(try mapping.residentPages() == 0)
        #expect(throws: (any Error).self) { try file.read(at: 0, count: 1) }
        #expect(throws: Errno.badAddress) { try mapping.read(at: 0, count: 1) }
        try volume.waitForEndOfConnection()
        #expect(throws: Errno(rawValue: ENOTCONN)) { try path.status() }
      }
    }

    /// One of its threads waits for pages that the kernel drops, and the kernel for the daemon to write them.
    @Test func whileItWaitsForItself() throws {
      try Volume.withFaults { volume, faults in
        let file = try volume.secret("file", 1)
        defer { withExtendedLifetime(file) { faults.disarm() } }
        let beside = try Unmounter(of: volume.processID)
        let daemon = try ProcessDescriptor(volume.processID)
        try file.makeDirty()
        faults.settle()
        faults.arm(.hang, at: 1, of: [.changes, .writes])
        defer { try? volume.mountPoint.abortConnection() }
        try volume.announceLock(gracePeriod: .zero)
        let deadline = ContinuousClock.now + .seconds(20)
        while faults.hanging == 0, .now < deadline { usleep(1000) }
        try #require(faults.hanging > 0, "nothing hung")
        #expect(calls_kill(volume.processID, SIGKILL) == 0)
        let hasEnded = daemon.waitForEnd(atMost: .seconds(20))
        #expect(hasEnded)
        #expect(beside.ends())
        #expect(try file.mapping.residentPages() == 0)
        let call = PendingCall { () throws(Errno) in _ = try volume.mountPoint.names() }
        #expect(try call.result() == .socketNotConnected)
      }
    }

    /// Root may end the connection of a mount in use (umount(8), `-f`): the daemon ends, and the pages are dropped too.
    @Test(Held.isPossible) func anEndedConnectionLeavesNone() throws {
      try Volume.with { volume in
        let held = try Held(volume, .root)
        defer { held.end() }
        let beside = try Unmounter(of: volume.processID)
        #expect(throws: Errno.resourceBusy) { try volume.mountPoint.abortConnection() }
        #expect(volume.waitForDaemon() != nil)
        #expect(beside.ends())
        #expect(held.tryToRead() == "read: nothing, mapping: nothing", "\(held.output)")
      }
    }

    /// If the process that drops the pages is killed too, commands report that they remain.
    @Test(Held.isPossible) func whatRemainsIsTold() throws {
      try Volume.with { volume in
        let held = try Held(volume, .root)
        defer { held.end() }
        let beside = try Unmounter(of: volume.processID)
        #expect(calls_kill(beside.process, SIGKILL) == 0)
        #expect(beside.ends())
        volume.kill()
        for command in ["lock", "unmount"] {
          let result = try Command.run([command, volume.mountPoint.description])
          #expect(result.ending == .exited(25), "\(command): \(result.output)")
          #expect(result.output.contains("process \(held.process)"), "\(result.output)")
        }
        #expect(!volume.isMounted)
      }
    }

    /// The mark of one mount does not apply to the next.
    @Test(Held.isPossible) func aMarkIsForOneMount() throws {
      try Volume.with { volume in
        for round in 0..<2 {
          let held = try Held(volume, .root)
          defer { held.end() }
          let beside = try Unmounter(of: volume.processID)
          if round == 1 {
            #expect(calls_kill(beside.process, SIGKILL) == 0)
            #expect(beside.ends())
          }
          volume.kill()
          if round == 0 { #expect(beside.ends()) }
          let result = try Command.run(["lock", volume.mountPoint.description])
          #expect(result.ending == .exited(round == 0 ? 13 : 25), "\(result.output)")
          try volume.mountPoint.unmount(isLazy: true)
          if round == 0 {
            try volume.mount()
            try volume.unlock()
          }
        }
      }
    }
  }
}

/// A process that has a file of class A open and mapped, and reads it again on request.
private struct Held {
  /// Where such a process can be started.
  static let isPossible = ConditionTrait.enabled(
    if: PathName("/usr/bin/python3").exists && Program.isInstalled("setfattr"), "python3 or setfattr is not installed")

  private let program: Program
  private let question: PathName
  var process: CInt { program.identifier }
  var output: String { program.output }

  /// The script reads each page again and reports the result. A mapping is read by a write(2), which fails where a load
  /// would cause SIGBUS.
  private static let script = """
    import mmap, os, sys, time
    path, question = sys.argv[1:]
    file = os.open(path, os.O_RDONLY)
    pages = mmap.mmap(file, 8192, prot=mmap.PROT_READ)
    ends = os.pipe()
    def attempt(body):
        try:
            return "text" if b"secret" in body() else "other"
        except OSError:
            return "nothing"
    def mapped():
        os.write(ends[1], memoryview(pages)[:4096])
        return os.read(ends[0], 4096)
    number = 0
    while True:
        print(f"{number} read: {attempt(lambda: os.pread(file, 4096, 0))}, mapping: {attempt(mapped)}", flush=True)
        number += 1
        while not os.path.exists(f"{question}.{number}"):
            time.sleep(0.01)
    """

  init(_ volume: Volume, _ mounter: Mounter) throws {
    let path = volume.path("held").description
    let preparation = "yes secret | head -c 8192 >'\(path)' && setfattr -n user.protectfs.class -v complete '\(path)'"
    try #require(try Program.run(mounter.launcher + ["sh", "-c", preparation]).succeeded)
    question = volume.directory.appending("question.\(UInt32.random(in: 0...UInt32.max))")
    program = try Program(
      mounter.launcher + ["/usr/bin/python3", "-c", Self.script, path, question.description],
      output: PathName("\(question).output"))
    try #require(answer(0) == "read: text, mapping: text", "\(program.output)")
  }

  /// What it reads now.
  func tryToRead() -> String? {
    let number = program.output.split(separator: "\n").count
    try? PathName("\(question).\(number)").write("")
    return answer(number)
  }

  private func answer(_ number: Int) -> String? {
    for _ in 0..<3000 {
      let lines = program.output.split(separator: "\n")
      if lines.count > number { return String(lines[number].drop { $0 != " " }.dropFirst()) }
      if program.poll() != nil { return nil }
      usleep(10_000)
    }
    return nil
  }

  func end() {
    program.send(SIGKILL)
    _ = program.wait()
  }
}
