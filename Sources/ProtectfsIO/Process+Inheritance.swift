import CProtectfsIO
import Glibc
import SystemPackage

// What a process made by fork(2) has of the one it comes from, and lets go.
extension Process {
  /// Closes what the caller's shell or the parent had open, but for the standard streams and one descriptor.
  package static func closeDescriptors(except kept: CInt) {
    guard let directory = try? Descriptor.open("/proc/self/fd", [.readOnly, .directory]) else { return }
    let names = (try? DirectoryNames(directory).all(limit: 65_536)) ?? []
    for name in names {
      if let number = CInt(name.description), number > STDERR_FILENO, number != kept { close(number) }
    }
  }

  /// Lets standard input, output and error stand for `/dev/null`.
  package static func redirectStandardStreams() {
    let null = unsafe open("/dev/null", O_RDWR)
    guard null >= 0 else { return }
    for stream in STDIN_FILENO...STDERR_FILENO { dup2(null, stream) }
    if null > STDERR_FILENO { close(null) }
  }

  /// Gives every signal its default action, and blocks none.
  package static func resetSignals() {
    linux_reset_signals()
  }

  /// Has the kernel's memory killer treat the process as any other, where it was to be spared (proc_pid_oom_score_adj(5)).
  package static func forgoSparing() {
    let path = PathName("/proc/self/oom_score_adj")
    let bytes = try? Descriptor.open(path, [.readOnly]).readAll(limit: 32)
    guard bytes?.first == UInt8(ascii: "-") else { return }
    // Without success it is spared, which harms nobody who is not short of memory.
    try? Descriptor.open(path, [.writeOnly]).write(Array("0".utf8))
  }

  /// Names the process, as ps(1) shows it; 15 bytes count (prctl(2), `PR_SET_NAME`).
  package static func setName(_ name: String) {
    _ = unsafe linux_set_thread_name(name)
  }
}
