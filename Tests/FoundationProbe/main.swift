import DataProtection
import Foundation

// Makes one Foundation call on a file as an unprivileged user, and prints the result: `ok`, or the domain and code of
// the error; with `diagnose-` before the call, the finding of ProtectedDataError. The program is started as root, since
// other users may not be allowed to read the Swift runtime.
//
// usage: FoundationProbe UID [diagnose-]read-data|read-string|read-handle|write|write-atomic FILE
//        FoundationProbe UID copy FILE TARGET
//        FoundationProbe UID notifications|unserved|dispatch|delegate|launch|suspended|exhausted SECONDS
//                                               prints each notification for this time
//        FoundationProbe UID names|available 0

/// What each call writes, and what reading must return.
let text = "Foundation was here\n"

func run(_ call: String, on path: String) throws -> Bool {
  let url = URL(fileURLWithPath: path)
  switch call {
  case "read-data": return try Data(contentsOf: url) == Data(text.utf8)
  case "read-string": return try String(contentsOfFile: path, encoding: .utf8) == text
  case "read-handle":
    let handle = try FileHandle(forReadingFrom: url)
    return try handle.readToEnd() == Data(text.utf8)
  case "write": try Data(text.utf8).write(to: url)
  case "copy": try FileManager.default.copyItem(atPath: path, toPath: arguments[4])
  case "write-atomic": try Data(text.utf8).write(to: url, options: .atomic)
  default: return false
  }
  return true
}

/// The cause of an error.
func diagnosis(_ error: any Error) -> String {
  guard let found = ProtectedDataError(diagnosing: error) else { return "undiagnosed" }
  let reason =
    switch found.reason {
    case .locked(let protectionClass, let end): "locked \(protectionClass.letter) \(end)"
    case .permissions: "permissions"
    case .keyRevoked: "keyRevoked"
    case .notProtected: "notProtected"
    }
  return "\(reason) \((found as NSError).code)"
}

/// Prints without buffering, also to a file.
func say(_ line: String) {
  print(line)
  fflush(nil)
}

/// Where code runs, if not where UIKit's does.
nonisolated func place() -> String { Thread.isMainThread ? "" : ", elsewhere" }

/// Prints the notifications that UIKit would post, observed as code for UIKit does.
func observe(on queue: OperationQueue?) -> [any NSObjectProtocol] {
  let center = NotificationCenter.default
  let will = center.addObserver(
    forName: UIApplication.protectedDataWillBecomeUnavailableNotification, object: nil, queue: queue
  ) { _ in
    // The lock waits for this.
    usleep(500_000)
    say("will become unavailable, \(UIApplication.shared.isProtectedDataAvailable)\(place())")
  }
  let did = center.addObserver(
    forName: UIApplication.protectedDataDidBecomeAvailableNotification, object: nil, queue: queue
  ) { _ in say("did become available, \(UIApplication.shared.isProtectedDataAvailable)\(place())") }
  say("at first, \(UIApplication.shared.isProtectedDataAvailable)")
  return [will, did]
}

@MainActor final class Delegate: UIResponder, UIApplicationDelegate {
  func application(
    _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
  ) -> Bool {
    say("launched, \(application.delegate === self && launchOptions == nil)\(place())")
    return true
  }

  func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication) {
    say("delegate: will become unavailable, \(application.isProtectedDataAvailable)\(place())")
  }

  func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication) {
    say("delegate: did become available\(place())")
  }
}

/// Blocks SIGUSR1, by which a test tells that something may go on.
@MainActor func blockSignal() {
  var signals = sigset_t()
  unsafe sigemptyset(&signals)
  unsafe sigaddset(&signals, SIGUSR1)
  unsafe sigprocmask(SIG_BLOCK, &signals, nil)
}

/// Whether SIGUSR1 has come.
@MainActor func isTold() -> Bool {
  var signals = sigset_t()
  unsafe sigpending(&signals)
  return unsafe sigismember(&signals, SIGUSR1) == 1
}

/// Waits for SIGUSR1 without a loop.
@MainActor func waitForSignal() {
  var signals = sigset_t()
  unsafe sigemptyset(&signals)
  unsafe sigaddset(&signals, SIGUSR1)
  var signal: CInt = 0
  unsafe sigwait(&signals, &signal)
}

/// Does what the tests of notifications need. Returns `false` for other words.
@MainActor func notify(_ word: String, seconds: Double) -> Bool {
  let end = Date(timeIntervalSinceNow: seconds)
  var kept: [Any] = []
  switch word {
  case "notifications": kept = observe(on: nil)
  case "unserved":
    blockSignal()
    // An observer of the main queue, whose thread runs no loop until it is told to.
    kept = observe(on: .main)
    waitForSignal()
  case "dispatch":
    // Other threads run the main queue, as under an asynchronous main.
    kept = observe(on: .main) + observe(on: nil)
    dispatchMain()
  case "delegate":
    let delegate = Delegate()
    UIApplication.shared.delegate = delegate
    kept = [delegate]
    say("at first, \(UIApplication.shared.isProtectedDataAvailable)")
  case "launch": Delegate.main()
  case "suspended":
    let queue = OperationQueue()
    queue.isSuspended = true
    let name = UIApplication.protectedDataWillBecomeUnavailableNotification
    kept = [NotificationCenter.default.addObserver(forName: name, object: nil, queue: queue) { _ in }, queue]
    kept += observe(on: .main)
  case "exhausted":
    blockSignal()
    kept = observe(on: nil)
    // libdispatch ends a program that has no descriptors left when it has its first timer, and so does a run loop that
    // runs for the first time.
    let timer = DispatchSemaphore(value: 0)
    DispatchQueue.global().asyncAfter(deadline: .now() + 0.01) { timer.signal() }
    timer.wait()
    repeat { RunLoop.main.run(until: Date(timeIntervalSinceNow: 0.1)) } while !isTold()
    var limit = rlimit(rlim_cur: 64, rlim_max: 64)
    unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    while unsafe open("/dev/null", O_RDONLY) >= 0 {}
    say("no more descriptors")
  case "names":
    let notification = Notification(name: Notification.Name("another"))
    let isOurs = notification.name == UIApplication.protectedDataDidBecomeAvailableNotification
    let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task"))?.count ?? 0
    say("\(isOurs), \(threads) thread")
    return true
  case "available":
    while let line = readLine() { say("\(line) \(UIApplication.shared.isProtectedDataAvailable)") }
    return true
  default: return false
  }
  RunLoop.main.run(until: end)
  withExtendedLifetime(kept) {}
  return true
}

let arguments = CommandLine.arguments
guard arguments.count == 4 || arguments.count == 5, let user = UInt32(arguments[1]) else { exit(64) }
guard setgroups(0, nil) == 0, setgid(user) == 0, setuid(user) == 0 else { exit(77) }
if notify(arguments[2], seconds: Double(arguments[3]) ?? 0) { exit(0) }
let diagnoses = arguments[2].hasPrefix("diagnose-")
do {
  let call = diagnoses ? String(arguments[2].dropFirst("diagnose-".count)) : arguments[2]
  print(try run(call, on: arguments[3]) ? "ok" : "wrong contents")
} catch let error as CocoaError {
  print(diagnoses ? diagnosis(error) : "cocoa \(error.code.rawValue)")
} catch {
  let error = error as NSError
  print(diagnoses ? diagnosis(error) : "\(error.domain) \(error.code)")
}
