import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// What the daemon has dropped: `SECURITY.md` has the list.
  @Suite struct SandboxTests {
    /// CAP_CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SYS_ADMIN, MKNOD, SETFCAP, by their numbers.
    private static let kept = [0, 1, 3, 4, 21, 27, 31].reduce(UInt64(0)) { $0 | 1 << $1 }

    @Test func everyThreadIsConfined() throws {
      try Volume.with { volume in
        // Its thread exists once it has answered.
        var connection = try volume.connection()
        _ = try connection.status()
        let threads = try ProcessStatus.threads(of: volume.processID)
        #expect(
          Set(["protectfs", "control", "control client", "lock", "signals", "request-0", "request-7", "writeback"])
            .isSubset(of: threads.map { $0["Name"] }))
        for thread in threads {
          for set in ["CapPrm", "CapEff", "CapBnd"] {
            #expect(UInt64(thread[set], radix: 16) == Self.kept, "\(set) of \(thread["Name"])")
          }
          for set in ["CapInh", "CapAmb"] {
            #expect(UInt64(thread[set], radix: 16) == 0, "\(set) of \(thread["Name"])")
          }
          #expect(thread["NoNewPrivs"] == "1" && thread["Seccomp"] == "2", "\(thread["Name"])")
        }
        _ = consume connection
      }
    }

    /// It reads what others may have written.
    @Test func aRestoreFromAStoreIsConfined() throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        for number in 0..<12 { try volume.path("\(number)").write("\(number)") }
        try volume.unmount()
        let copy = volume.directory.appending("copy")
        try #require(try Program.run(["cp", "-a", volume.backing.description, copy.description]).succeeded)
        try volume.mount()
        try volume.unlock()
        try volume.shell("rm *")
        let faults = try Faults(of: volume, in: volume.mountPoint)
        faults.arm(.hang, at: 1, of: .changes)
        let program = try Program(
          [Command.path, "restore", "--from", copy.description, volume.mountPoint.description]
            + volume.openingOptions, environment: faults.environment, output: volume.directory.appending("output"))
        let deadline = ContinuousClock.now + patience
        while faults.hanging == 0 {
          try #require(ContinuousClock.now < deadline && program.poll() == nil, "\(program.output)")
          usleep(5000)
        }
        let threads = try ProcessStatus.threads(of: program.identifier)
        #expect(Set(["protectfs", "signals", "copy"]).isSubset(of: threads.map { $0["Name"] }))
        for thread in threads {
          #expect(thread["NoNewPrivs"] == "1" && thread["Seccomp"] == "2", "\(thread["Name"])")
          for set in ["CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"] {
            let held = try #require(UInt64(thread[set], radix: 16))
            #expect(held & ~Self.kept == 0, "\(set) of \(thread["Name"])")
          }
        }
        faults.disarm()
        #expect(program.wait() == .exited(0), "\(program.output)")
        for number in 0..<12 { #expect(try volume.path("\(number)").contents() == Array("\(number)".utf8)) }
      }
    }

    @Test func leavesNoCoreDump() throws {
      try Volume.with { volume in
        let limits = try ProcessStatus.read(PathName("/proc/\(volume.processID)/limits"))
        let line = String(decoding: limits, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("Max core") }
        #expect(line?.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"])
      }
    }

    @Test func canBeTurnedOff() throws {
      try Volume.with(["-o", "allow_other,sandbox=off"]) { volume in
        let status = try ProcessStatus(PathName("/proc/\(volume.processID)"))
        #expect(status["Seccomp"] == "0" && status["NoNewPrivs"] == "0")
        #expect(UInt64(status["CapEff"], radix: 16) != Self.kept)
        try volume.unmount()
      }
    }

    @Test func theFilterRefusesWhatADaemonNeverDoes() throws {
      let result = try Program.run([Command.beside("SandboxProbe")])
      #expect(result.succeeded)
      let lines = result.output.split(separator: "\n").map { $0.split(separator: ":") }
      #expect(lines.count > 30, "\(result.output)")
      for line in lines {
        let expected = line[0].hasPrefix("forbidden") ? EPERM : 0
        #expect(line.last == " \(expected)", "\(line[0])")
      }
    }

    #if arch(x86_64)
      @Test func callsByOtherNumbersEndTheProcess() throws {
        let result = try Program.run([Command.beside("SandboxProbe"), "other-numbers"])
        #expect(result.ending == .killed(SIGSYS))
      }
    #endif

    /// The attributes for which the daemon keeps CAP_SYS_ADMIN and CAP_SETFCAP, and the device node CAP_MKNOD.
    @Test func rootKeepsWhatOnlyRootMayDo() throws {
      try Volume.with { volume in
        try volume.shell(
          """
          touch file
          chown 1234:5678 file
          setfattr -n trusted.overlay.opaque -v y file
          test $(getfattr --only-values -n trusted.overlay.opaque file) = y
          setfattr -n security.test -v y file
          setcap cap_net_raw=ep file
          getcap file | grep -q cap_net_raw
          chmod 6755 file
          test $(stat -c %a%u file) = 67551234
          mknod null c 1 3
          test "$(stat -c %t:%T null)" = 1:3
          """)
      }
    }

    @Test func aLogFileThatOthersWriteIsRefused() throws {
      try Volume.store { volume in
        let log = volume.directory.appending("daemon.log")
        try log.write("")
        for (mode, owner) in [(0o620, 0), (0o602, 0), (0o600, 65534)] as [(UInt32, UInt32)] {
          try log.setMode(mode)
          try log.setOwner(user: owner, group: 0)
          let result = try Command.run([
            "mount", volume.backing.description, volume.mountPoint.description, "--device-key",
            volume.deviceKey.description, "--log-file", log.description,
          ])
          #expect(result.ending == .exited(11) && result.output.contains("written by others"), "\(result.output)")
        }
        #expect(!volume.isMounted)
      }
    }
  }
}

/// The status of a process or thread in proc_pid_status(5).
struct ProcessStatus {
  private let fields: [Substring: Substring]

  init(_ directory: PathName) throws(Errno) {
    let text = String(decoding: try Self.read(directory.appending("status")), as: UTF8.self)
    fields = text.split(separator: "\n").reduce(into: [:]) { fields, line in
      let parts = line.split(separator: ":", maxSplits: 1)
      if parts.count == 2 { fields[parts[0]] = parts[1].drop { $0 == "\t" || $0 == " " } }
    }
  }

  subscript(_ name: String) -> String { fields[name[...]].map(String.init) ?? "" }

  /// The time for which a process has used processors.
  static func processorTime(of process: CInt) throws(Errno) -> Duration {
    let text = String(decoding: try read(PathName("/proc/\(process)/stat")), as: UTF8.self)
    // The fields behind the name, which may have blanks: those of user and system time are the 12th and 13th.
    let fields = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ")
    let ticks = fields.count > 13 ? (Int(fields[12]) ?? 0) + (Int(fields[13]) ?? 0) : 0
    return .milliseconds(ticks * 1000 / sysconf(CInt(_SC_CLK_TCK)))
  }

  /// Those of all threads of a process, except one that ends meanwhile.
  static func threads(of process: CInt) throws(Errno) -> [ProcessStatus] {
    let tasks = PathName("/proc/\(process)/task")
    var threads: [ProcessStatus] = []
    for name in try tasks.names() {
      do throws(Errno) {
        threads.append(try ProcessStatus(tasks.appending(name.description)))
      } catch {
        guard error == .noSuchFileOrDirectory || error == .noSuchProcess else { throw error }
      }
    }
    return threads
  }

  /// A file in proc(5), whose length is unknown before it is read.
  static func read(_ path: PathName) throws(Errno) -> [UInt8] {
    try Descriptor.open(path, [.readOnly]).readAll(limit: 1 << 16)
  }
}
