import Glibc
import ProtectfsIO
import SystemPackage

/// How long a test waits for what must come. This only ends a test that would hang: no test says how fast something is.
let patience = Duration.seconds(60)

/// Waits until something holds. Returns whether it does.
@discardableResult
func eventually(_ condition: () throws -> Bool) rethrows -> Bool {
  let deadline = ContinuousClock.now + patience
  while try !condition() {
    if ContinuousClock.now > deadline { return false }
    usleep(2000)
  }
  return true
}

/// Waits until no thread of these processes runs, is about to, or waits for a disk: what they were woken for is done.
/// Seen twice, as one may have woken another between the looks at them.
func sleepsEventually(_ processes: CInt...) {
  var looks = 0
  eventually {
    looks = processes.allSatisfy(isAsleep) ? looks + 1 : 0
    return looks == 2
  }
}

/// A process that has ended sleeps too.
private func isAsleep(_ process: CInt) -> Bool {
  let tasks = PathName("/proc/\(process)/task")
  return ((try? tasks.names()) ?? []).allSatisfy { task in
    // The state follows the name, which may have blanks and brackets.
    guard let text = try? ProcessStatus.read(tasks.appending("\(task)/stat")),
      let name = text.lastIndex(of: UInt8(ascii: ")")), name + 2 < text.count
    else { return true }
    return text[name + 2] != UInt8(ascii: "R") && text[name + 2] != UInt8(ascii: "D")
  }
}
