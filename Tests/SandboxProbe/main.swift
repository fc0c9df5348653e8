import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Drops the system calls that a daemon drops, then tries calls that it may not make and some that it must be able to
// make. Prints a line for each: the call, and the error number or 0. It runs as root, so that missing privileges are
// not the reason.
//
// usage: SandboxProbe [other-numbers]

func attempt(_ name: String, _ body: () throws(Errno) -> Void) {
  do throws(Errno) {
    try body()
    print("\(name): 0")
  } catch {
    print("\(name): \(error.rawValue)")
  }
}

try Privileges.refuseNew()
try Privileges.filterSystemCalls()

if CommandLine.arguments.dropFirst().first == "other-numbers" {
  calls_use_other_numbers()
  exit(0)
}

var index: CInt = 0
while let name = unsafe calls_forbidden(index) {
  print("forbidden \(unsafe String(cString: name)): \(-calls_attempt(index))")
  index += 1
}
print("forbidden fork: \(fork() < 0 ? errno : 0)")

attempt("allowed open") { () throws(Errno) in _ = try Descriptor.open("/proc/self/status", [.readOnly]) }
attempt("allowed socket") { () throws(Errno) in _ = try LocalSocket() }
attempt("allowed pair") { () throws(Errno) in
  let ends = try LocalSocket.pair()
  close(ends.0)
  close(ends.1)
}
attempt("allowed thread") { () throws(Errno) in
  Thread(name: "thread") { Memory.giveThreadItsOwnUmask() }.join()
}
