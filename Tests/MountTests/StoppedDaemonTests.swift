import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// The command waits for a stopped daemon, and says so.
  @Suite struct StoppedDaemonTests {
    @Test func commandsSayWhatTheyWaitFor() throws {
      try Volume.with { volume in
        #expect(calls_kill(volume.processID, SIGSTOP) == 0)
        defer { _ = calls_kill(volume.processID, SIGCONT) }
        let calls = [
          ["lock", "--now"], ["status"], ["unlock", "--passcode-file", volume.passcodeFile.description], ["unmount"],
        ]
        let programs = try calls.map { call in
          try Program(
            [Command.path] + call + [volume.mountPoint.description], output: volume.directory.appending(call[0]))
        }
        for (call, program) in zip(calls, programs) {
          for _ in 0..<3000 where program.output.isEmpty && program.poll() == nil { usleep(10_000) }
          #expect(program.output.contains("the daemon (process \(volume.processID)) is stopped (SIGSTOP)"), "\(call)")
          #expect(program.poll() == nil, "\(call): \(program.output)")
        }
        // The others end, and the first completes when the daemon continues.
        for program in programs.dropFirst() { program.send(SIGKILL) }
        for program in programs.dropFirst() { _ = program.wait() }
        #expect(calls_kill(volume.processID, SIGCONT) == 0)
        #expect(programs[0].wait() == .exited(0), "\(programs[0].output)")
      }
    }
  }
}
