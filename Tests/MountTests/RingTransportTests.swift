import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Requests through rings of io_uring(7), and what a mount does where those are not to be had.
  @Suite(.serialized, Setting.isPossible) struct RingTransportTests {
    private static let options = ["-o", "allow_other,transport=io_uring"]

    @Test func servesThroughRings() throws {
      try Setting.offer.with("Y") {
        try Volume.with(Self.options) { volume in
          #expect(try volume.status().transport == .ioUring)
          let path = volume.path("file")
          let contents = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 * $0 >> 5) }
          try path.write(contents)
          try volume.remount(Self.options)
          try volume.unlock()
          #expect(try path.contents() == contents)
          let before = try volume.status().requests
          #expect(try volume.mountPoint.names() == [PathName("file")])
          #expect(try volume.status().requests["readdirplus", default: 0] > before["readdirplus", default: 0])
        }
      }
    }

    /// Threads that wait for requests are not counted as if they waited for a disk, where the kernel permits to say so.
    @Test(.enabled(if: Setting.mayWaitWithoutDisk, "needs Linux 6.15")) func anIdleMountIsNoLoad() throws {
      /// The number of threads that wait for disks, at the quietest of some moments.
      func waiting() throws -> Int {
        try (0..<50).map { _ in
          usleep(10_000)
          let text = try PathName("/proc/stat").text()
          let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("procs_blocked ") })
          return try #require(Int(line.split(separator: " ")[1]))
        }.min()!
      }
      try Setting.offer.with("Y") {
        let before = try waiting()
        try Volume.with(Self.options) { volume in
          let (status, mounted) = (try volume.status(), try waiting())
          #expect(status.transport == .ioUring)
          #expect(mounted <= before)
        }
      }
    }

    /// As many requests as there are processors, and more, wait at a time.
    @Test func aQueueDoesNotWaitForItself() throws {
      try Setting.offer.with("Y") {
        try Volume.withFaults(Self.options) { volume, faults in
          let names = (0..<24).map { volume.path("directory \($0)") }
          for name in names { try name.makeDirectory() }
          let free = volume.path("free")
          try free.write("contents")
          for directory in [volume.mountPoint] + names { _ = try directory.status() }
          defer { faults.disarm() }
          faults.settle()
          faults.arm(.hang, at: 1, of: [.changes])
          let others = names.map { name in PendingCall { () throws(Errno) in try name.appending("new").makeDirectory() }
          }
          while faults.hanging < names.count { usleep(1000) }
          #expect(try free.contents() == Array("contents".utf8))
          faults.disarm()
          for call in others { #expect(try call.result() == nil) }
        }
      }
    }

    /// Each request that hangs has a buffer. When all are served, their memory is given back.
    @Test func whatABurstHasUsedIsGivenBack() throws {
      try Setting.offer.with("Y") {
        try Volume.withFaults(Self.options) { volume, faults in
          let data = [UInt8](repeating: 1, count: 1 << 20)
          let files = try (0..<12).map {
            try OpenFile(volume.path("file \($0)"), O_RDWR | O_CREAT | OpenFile.direct)
          }
          defer { faults.disarm() }
          faults.settle()
          faults.arm(.hang, at: 1, of: [.writes])
          let calls = files.map { file in PendingCall { () throws(Errno) in try file.write(data, at: 0) } }
          while faults.hanging < files.count { usleep(1000) }
          func sharedMemory() throws -> Int {
            let line = try PathName("/proc/\(volume.processID)/status").text().split(separator: "\n")
              .first { $0.hasPrefix("RssShmem:") }
            return try #require(line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }) << 10
          }
          #expect(try sharedMemory() >= files.count << 20)
          faults.disarm()
          for call in calls { #expect(try call.result() == nil) }
          // Small requests still use some.
          #expect(try eventually { try sharedMemory() < 2 << 20 })
          for file in files { #expect(try file.read(at: 0, count: 1 << 20) == data) }
        }
      }
    }

    /// More requests hang than there are threads: others are deferred, what a lock refuses is refused all the same, and
    /// nothing keeps a processor busy meanwhile. Then each of them is served.
    @Test func moreHangThanThereAreThreads() throws {
      try Setting.offer.with("Y") {
        try Volume.withFaults(["-o", "allow_other,transport=io_uring,threads=1"]) { volume, faults in
          let secret = try volume.secret("secret", 1)
          defer { withExtendedLifetime(secret) { faults.disarm() } }
          let names = (0..<60).map { volume.path("directory \($0)") }
          for name in names { try name.makeDirectory() }
          try volume.lock()
          for directory in [volume.mountPoint] + names { _ = try directory.status() }
          faults.settle()
          faults.arm(.hang, at: 1, of: [.changes, .reads])
          let calls = names.map { name in
            PendingCall { () throws(Errno) in try name.appending("new").makeDirectory() }
          }
          while faults.hanging < 16 { usleep(1000) }
          usleep(500_000)
          let before = try ProcessStatus.processorTime(of: volume.processID)
          try secret.expectUnreadable()
          usleep(500_000)
          let used = try ProcessStatus.processorTime(of: volume.processID) - before
          #expect(used < .milliseconds(250))
          let isAnyDone = calls.contains { !$0.isPending }
          #expect(!isAnyDone)
          faults.disarm()
          for call in calls { #expect(try call.result() == nil) }
          for name in names { #expect(name.appending("new").exists) }
          try volume.unlock()
          #expect(try secret.path.contents() == secret.contents)
        }
      }
    }

    /// SEEK_DATA waits for pages that other threads write.
    @Test func seeksSeeDirtyPages() throws {
      try Setting.offer.with("Y") {
        try Volume.with(Self.options) { volume in
          let file = try OpenFile(volume.path("file"), O_RDWR | O_CREAT)
          for round in 0..<50 {
            let place = (round * 2 + 1) << 16
            try file.write([1], at: place)
            #expect(try file.seek(to: place - 65536, .data) == place)
          }
        }
      }
    }

    @Test(arguments: [
      (Setting.offer.to("N"), "is turned off; 'echo Y >\(Setting.offer.path)'"),
      (Setting.forbidden.to("2"), "'sysctl kernel.io_uring_disabled=0'"),
    ])
    func withoutRingsTheDeviceServes(_ change: Setting.Change, _ reason: String) throws {
      try Setting.offer.with("Y") {
        try change.setting.with(change.value) {
          let start = ContinuousClock.now
          try Volume.with(Self.options) { volume in
            #expect(ContinuousClock.now - start < .seconds(5))
            let begin = ContinuousClock.now
            try volume.path("file").write("contents")
            #expect(ContinuousClock.now - begin < .seconds(1))
            #expect(try volume.status().transport == .device)
            #expect(volume.log.contains("not io_uring"))
            try expect(reason, of: volume)
          }
        }
      }
    }

    /// Expects the log and `status` to say why there are no rings.
    private func expect(_ reason: String, of volume: Volume) throws {
      let obstacle = try #require(try volume.status().transportReason)
      #expect(obstacle.contains(reason))
      #expect(volume.log.contains("\(obstacle): requests come through /dev/fuse, not io_uring"), "\(volume.log)")
      let report = try Command.run(["status", "\(volume.mountPoint)"]).output
      #expect(report.contains("through /dev/fuse, not io_uring: \(obstacle)\n"), "\(report)")
    }

    /// A program that runs the command without something that rings need, and why they cannot be had then.
    struct Want: Sendable, CustomTestStringConvertible {
      let testDescription: String
      let launcher: [String]
      var obstacle: String?
      var transport: RequestTransport { obstacle == nil ? .ioUring : .device }
    }

    private static let wants = [
      Want(testDescription: "descriptors", launcher: ["prlimit", "--nofile=64:64"]),
      Want(testDescription: "locked memory", launcher: ["prlimit", "--memlock=0:0"]),
      Want(testDescription: "io_uring_setup(2)", launcher: refusing(425), obstacle: "(seccomp)"),
    ]

    /// Executes its arguments where a filter (seccomp(2)) refuses a system call, whose number is the same on all
    /// architectures, with EPERM.
    private static func refusing(_ number: Int) -> [String] {
      let script = """
        import ctypes, os, struct, sys
        code = [(0x20, 0, 0, 0), (0x15, 0, 1, \(number)), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
        program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
        head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program)))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, head, 0, 0) == 0
        os.execvp(sys.argv[1], sys.argv[1:])
        """
      return ["python3", "-c", script]
    }

    /// The kernel's list of connections is not mounted, and the daemon may not mount it for itself (fsopen(2)).
    @Test(
      .enabled(if: Program.isInstalled("python3"), "python3 is not installed"),
      .enabled(
        if: (try? PathName("/sys/fs/fuse/connections").names())?.isEmpty == true, "the list of connections is mounted"))
    func theListOfConnectionsIsMissing() throws {
      try Setting.offer.with("Y") {
        try Volume.store { volume in
          try volume.mount(Self.options, through: Self.refusing(430))
          try expect("'mount -t fusectl fusectl /sys/fs/fuse/connections'", of: volume)
        }
      }
    }

    @Test(.enabled(if: Program.isInstalled("prlimit") && Program.isInstalled("python3")), arguments: wants)
    func itAnswersWithLess(_ want: Want) throws {
      try Setting.offer.with("Y") {
        try Volume.store { volume in
          try volume.mount(Self.options, through: want.launcher)
          let begin = ContinuousClock.now
          _ = try volume.mountPoint.names()
          #expect(ContinuousClock.now - begin < .seconds(1))
          let status = try volume.status()
          #expect(status.transport == want.transport)
          #expect(volume.log.contains("not io_uring") == (want.transport == .device), "\(volume.log)")
          if let obstacle = want.obstacle { try expect(obstacle, of: volume) }
          try volume.unlock()
          try volume.path("file").write("contents")
          #expect(try volume.path("file").contents() == Array("contents".utf8))
        }
      }
    }

    /// Without an option, rings are used where the kernel offers them and waking a processor takes long; what it takes
    /// is in the status. What the device does instead is not warned of.
    @Test(.enabled(if: Volume.optionsOfAll.isEmpty, "the transport is given"), arguments: ["Y", "N"])
    func ringsAreTheDefaultWhereTheyPay(_ offer: String) throws {
      try Setting.offer.with(offer) {
        try Volume.with(["-o", "allow_other,latency=system"]) { volume in
          let status = try volume.status()
          if offer == "Y" {
            let reason = try #require(status.transportReason)
            #expect(reason.contains("waking a processor takes"), "\(reason)")
            #expect((status.transport == .device) == reason.contains("too little for rings to pay"), "\(reason)")
          } else {
            #expect(status.transport == .device && status.transportReason == nil)
          }
          #expect(!volume.log.contains("not io_uring"), "\(volume.log)")
        }
      }
    }
  }
}

/// A setting of the kernel.
struct Setting: Sendable {
  let path: PathName

  /// The kernel can pass requests through rings, and this process may turn that on.
  static let isPossible = ConditionTrait.enabled(
    if: offer.path.exists && geteuid() == 0, "the kernel has no rings for FUSE, or only root may turn them on")

  /// Linux 6.15 or later.
  static let mayWaitWithoutDisk: Bool = {
    let numbers = ((try? PathName("/proc/sys/kernel/osrelease").text()) ?? "").split { !$0.isNumber }.prefix(2)
    let version = numbers.compactMap { Int($0) }
    return version.count == 2 && (version[0], version[1]) >= (6, 15)
  }()

  struct Change: Sendable {
    let setting: Setting
    let value: String
  }

  static let offer = Setting(path: PathName("/sys/module/fuse/parameters/enable_uring"))
  static let forbidden = Setting(path: PathName("/proc/sys/kernel/io_uring_disabled"))

  func to(_ value: String) -> Change { Change(setting: self, value: value) }

  /// Sets a value, calls `body`, and restores the former value.
  func with(_ value: String, _ body: () throws -> Void) throws {
    // Such a file has no length.
    let former = try OpenFile(path, O_RDONLY).read(at: 0, count: 16)
    try #require(!former.isEmpty)
    func set(_ bytes: [UInt8]) throws { try OpenFile(path, O_WRONLY).append(bytes) }
    try set(Array(value.utf8))
    let result = Result { try body() }
    try set(former)
    try result.get()
  }
}
