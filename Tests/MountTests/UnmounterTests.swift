import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// The unmounter, for root and for an ordinary user: a mount that is asked to end is removed, and the process ends
  /// with it.
  @Suite struct UnmounterTests {
    @Test(arguments: Mounter.all) func toldToEnd(_ mounter: Mounter) throws {
      try mounter.withVolume { volume in
        let unmounter = try Unmounter(of: volume.processID)
        #expect(calls_kill(volume.processID, SIGTERM) == 0)
        #expect(volume.waitForDaemon() == .exited(0))
        #expect(!volume.isMounted)
        #expect(try !Self.log(of: volume).contains("busy"))
        #expect(unmounter.ends())
      }
    }

    /// Signals that somebody sends to all processes of a name.
    @Test func strayingSignals() throws {
      try Volume.with { volume in
        let unmounter = try Unmounter(of: volume.processID)
        for number in [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, 40] {
          for process in [volume.processID, unmounter.process] { #expect(calls_kill(process, number) == 0) }
        }
        try volume.path("file").write("contents")
        #expect(calls_kill(volume.processID, SIGTERM) == 0)
        #expect(volume.waitForDaemon() == .exited(0))
        #expect(!volume.isMounted && unmounter.ends())
      }
    }

    @Test(arguments: Mounter.all) func toldToEndWhileBusy(_ mounter: Mounter) throws {
      try mounter.withVolume { volume in
        let unmounter = try Unmounter(of: volume.processID)
        let user = try Program(
          mounter.launcher + ["sh", "-c", "cd '\(volume.mountPoint)' && echo here && exec sleep 60"],
          output: volume.directory.appending("user"))
        defer { user.send(SIGKILL) }
        while user.output.isEmpty && user.poll() == nil { usleep(2000) }
        #expect(calls_kill(volume.processID, SIGTERM) == 0)
        #expect(volume.waitForDaemon() == .exited(0))
        #expect(!volume.isMounted)
        #expect(try Self.log(of: volume).contains("the mount is busy"))
        #expect(unmounter.ends())
      }
    }

    @Test(arguments: Mounter.all) func unmounted(_ mounter: Mounter) throws {
      try mounter.withVolume { volume in
        let unmounter = try Unmounter(of: volume.processID)
        let script = "echo x > '\(volume.mountPoint)/file' && cat '\(volume.mountPoint)/file'"
        #expect(try Program.run(mounter.launcher + ["sh", "-c", script]).output == "x\n")
        let command = try Program(
          mounter.launcher + [Command.path, "unmount", volume.mountPoint.description],
          output: volume.directory.appending("output"))
        #expect(volume.waitForDaemon() == .exited(0))
        #expect(command.wait() == .exited(0), "\(command.output)")
        #expect(!volume.isMounted && unmounter.ends())
      }
    }

    @Test(arguments: Mounter.all) func goesWithAKilledDaemon(_ mounter: Mounter) throws {
      try mounter.withVolume { volume in
        let unmounter = try Unmounter(of: volume.processID)
        volume.kill()
        #expect(unmounter.ends())
        let result = try Program.run(mounter.launcher + [Command.path, "unmount", volume.mountPoint.description])
        #expect(result.succeeded && !volume.isMounted, "\(result.output)")
      }
    }

    /// The mount was taken away, and the next is at its place when the unmounter comes to it: that of another store, to
    /// which the kernel has given the same numbers.
    @Test(arguments: Mounter.all) func theNextMountWithItsNumbersStays(_ mounter: Mounter) throws {
      try mounter.withVolume { volume in
        try mounter.withVolume { next in
          try next.unmount()
          let device = try MountedFileSystem.at(volume.mountPoint.description)?.device
          let unmounter = try Unmounter(of: volume.processID)
          #expect(calls_kill(unmounter.process, SIGSTOP) == 0)
          defer { _ = calls_kill(unmounter.process, SIGCONT) }
          #expect(calls_kill(volume.processID, SIGTERM) == 0)
          try volume.waitUntilItAsksToUnmount()
          try volume.mountPoint.unmount(isLazy: false)

          let daemon = try next.mount(at: volume, device: device, through: mounter.launcher)
          defer {
            try? volume.mountPoint.unmount(isLazy: true)
            _ = daemon.wait()
          }
          #expect(calls_kill(unmounter.process, SIGCONT) == 0)
          #expect(volume.waitForDaemon() == .exited(0))
          #expect(unmounter.ends())
          #expect(volume.isMounted)
          #expect(try Program.run(mounter.launcher + ["ls", volume.mountPoint.description]).succeeded)
        }
      }
    }

    #if arch(x86_64)
      /// What the daemon has the kernel ask it, so that a queue of its rings goes on, keeps nobody from unmounting.
      @Test func aQuestionIsNoUse() throws {
        try Volume.with { volume in
          let place = volume.mountPoint
          let device = try #require(try MountedFileSystem.at(place.description)?.device)
          let thread = Monitor(.test, Int32(0))
          #expect(calls_kill(volume.processID, SIGSTOP) == 0)
          defer { _ = calls_kill(volume.processID, SIGCONT) }
          let question = PendingCall { () throws(Errno) in
            thread.update { $0 = Thread.number }
            if !KernelConnection.askForStatus(of: device) { throw .noFunction }
          }
          #expect(
            eventually {
              let call = PathName("/proc/self/task/\(thread.read { $0 })/syscall")
              return (try? call.text().starts(with: "136 ")) == true  // ustat(2)
            })
          let unmounting = PendingCall { () throws(Errno) in try place.unmount(isLazy: false) }
          #expect(eventually { !volume.isMounted || !unmounting.isPending })
          #expect(calls_kill(volume.processID, SIGCONT) == 0)
          #expect(try unmounting.result() == nil && question.result() == nil)
          #expect(volume.waitForDaemon() == .exited(0))
        }
      }
    #endif

    /// It holds nothing of the caller or the store, and ignores the signals of a terminal or service manager.
    @Test func holdsNothing() throws {
      try Mounter.root.withVolume(byPasscode: true) { volume in
        let unmounter = try Unmounter(of: volume.processID)
        let directory = unmounter.directory
        let targets = try directory.appending("fd").names().map {
          String(decoding: try directory.appending("fd/\($0)").symbolicLinkTarget(), as: UTF8.self)
        }
        #expect(targets.filter { $0 == "/dev/null" }.count == 3)
        // Besides the socket, it holds what it needs after the daemon's end: the kernel's word of that, the connection,
        // and what ends that.
        #expect(targets.count == 7 && targets.contains("/dev/fuse"), "\(targets)")
        #expect(targets.contains { $0.hasPrefix("socket:") }, "\(targets)")
        for suffix in ["/abort", "[signalfd]"] { #expect(targets.contains { $0.hasSuffix(suffix) }, "\(targets)") }
        #expect(try directory.appending("cwd").symbolicLinkTarget() == Array("/".utf8))
        let status = try ProcessStatus(directory)
        #expect(UInt64(status["CapPrm"], radix: 16) == 1 << 2 | 1 << 21, "CAP_DAC_READ_SEARCH, CAP_SYS_ADMIN")

        for signal in [SIGINT, SIGHUP, SIGTERM] { #expect(calls_kill(unmounter.process, signal) == 0) }
        let keys = try StoreKeys(of: volume)
        var needles = Needles()
        needles.add("the key of class A", keys.classKeys[.complete]!)
        needles.add("the passcode", Array(Volume.passcode.utf8))
        let found = try needles.find(in: unmounter.process)
        #expect(found.count == 0 && found.searched > 1 << 20, "\(found.first ?? "")")
        #expect(calls_kill(volume.processID, SIGTERM) == 0)
        #expect(volume.waitForDaemon() == .exited(0) && !volume.isMounted)
      }
    }

    private static func log(of volume: Volume) throws -> String {
      String(decoding: try volume.directory.appending("log.1").contents(), as: UTF8.self)
    }

    /// The daemon starts no program once it serves, so a command that prints the passcode runs before.
    @Test func inTheForegroundACommandGivesThePasscode() throws {
      try Volume.store { volume in
        try volume.mount(["-o", "grace=1", "--passcode-command", "cat '\(volume.passcodeFile)'"])
        try volume.wait(for: .unlocked)
      }
    }
  }
}

/// The user who mounts.
enum Mounter: CaseIterable, CustomTestStringConvertible {
  case root, ordinaryUser

  private static let user: UInt32 = 65534

  /// The ordinary user only if it may run the built programs and fusermount3(1).
  static let all: [Mounter] = {
    let mayRun = try? Program.run(Mounter.ordinaryUser.launcher + [Command.path, "--version"]).succeeded
    if mayRun == true, Program.isInstalled("fusermount3") { return allCases }
    print("mounts of an ordinary user are not tested: it may not run \(Command.path), or there is no fusermount3")
    return [.root]
  }()

  var testDescription: String { self == .root ? "root" : "an ordinary user" }

  /// The command that starts a program as this user.
  var launcher: [String] {
    self == .root ? [] : ["setpriv", "--reuid=\(Self.user)", "--regid=\(Self.user)", "--clear-groups"]
  }

  /// Creates a store of this user's, lets the user mount and unlock it, and calls `body`.
  func withVolume(byPasscode: Bool = false, _ body: (Volume) throws -> Void) throws {
    try Volume.store { volume in
      if self != .root {
        let owner = "\(Self.user):\(Self.user)"
        try #require(try Program.run(["chown", "-R", owner, volume.directory.description]).succeeded)
      }
      // If no XDG_RUNTIME_DIR belongs to the user, its sockets have a directory in /tmp.
      defer { TemporaryDirectory.remove(PathName("/tmp/protectfs-\(Self.user)")) }
      try volume.mount(["-o", "grace=10"], through: launcher)
      if byPasscode { try volume.unlock(Volume.passcode) } else { try volume.unlock() }
      try body(volume)
    }
  }
}

/// The process beside a daemon.
struct Unmounter {
  let process: CInt
  var directory: PathName { PathName("/proc/\(process)") }

  init(of daemon: CInt) throws {
    process = try #require(
      try PathName("/proc").names().lazy.compactMap { CInt($0.description) }.first { process in
        let status = try? ProcessStatus(PathName("/proc/\(process)"))
        return status?["Name"] == "unmounter" && status?["PPid"] == "\(daemon)"
      })
  }

  /// Waits until it is gone, or is left only for init(1) to reap.
  func ends() -> Bool {
    for _ in 0..<500 {
      guard let status = try? ProcessStatus(directory), !status["State"].hasPrefix("Z") else { return true }
      usleep(10_000)
    }
    return false
  }
}

extension Volume {
  /// Waits until the daemon, which was told to end, has asked the unmounter and waits for its answer.
  fileprivate func waitUntilItAsksToUnmount() throws {
    let tasks = PathName("/proc/\(processID)/task")
    let signals = try #require(
      try tasks.names().first { try ProcessStatus(tasks.appending("\($0)"))["Name"] == "signals" })
    let deadline = ContinuousClock.now + .seconds(20)
    while !log.contains("told to end") || Process.state(of: "\(processID)/task/\(signals)") != "S" {
      try #require(ContinuousClock.now < deadline)
      usleep(1000)
    }
  }
  /// Mounts at the mount point of another volume, with a device number if it can be had: any other mount of the system
  /// may have taken it.
  fileprivate func mount(at other: Volume, device: String?, through launcher: [String]) throws -> Program {
    var attempts = 20
    while true {
      let daemon = try start(["-o", "grace=10"], at: other.mountPoint, through: launcher)
      while !other.isMounted && daemon.poll() == nil { usleep(2000) }
      let found = try MountedFileSystem.at(other.mountPoint.description)?.device
      attempts -= 1
      if found == device || attempts == 0 { return daemon }
      try other.mountPoint.unmount(isLazy: true)
      _ = daemon.wait()
    }
  }
}
