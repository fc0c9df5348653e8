import DataProtection
import Foundation

// Makes one Foundation call on a file as an unprivileged user, and prints the result: `ok`, or the domain and code of
// the error; with `diagnose-` before the call, the finding of ProtectedDataError. The program is started as root, since
// other users may not be allowed to read the Swift runtime.
//
// usage: FoundationProbe UID [diagnose-]read-data|read-string|read-handle|write|write-atomic FILE
//        FoundationProbe UID notifications SECONDS    prints each notification for this time

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

/// Prints the notifications that UIKit would post, observed as code for UIKit does.
func observe(seconds: Double) {
  let center = NotificationCenter.default
  let will = center.addObserver(
    forName: UIApplication.protectedDataWillBecomeUnavailableNotification, object: nil, queue: nil
  ) { _ in
    // The lock waits for this.
    usleep(500_000)
    say("will become unavailable, \(UIApplication.shared.isProtectedDataAvailable)")
  }
  let did = center.addObserver(
    forName: UIApplication.protectedDataDidBecomeAvailableNotification, object: nil, queue: nil
  ) { _ in say("did become available, \(UIApplication.shared.isProtectedDataAvailable)") }
  say("at first, \(UIApplication.shared.isProtectedDataAvailable)")
  usleep(UInt32(seconds * 1_000_000))
  center.removeObserver(will)
  center.removeObserver(did)
}

let arguments = CommandLine.arguments
guard arguments.count == 4, let user = UInt32(arguments[1]) else { exit(64) }
guard setgroups(0, nil) == 0, setgid(user) == 0, setuid(user) == 0 else { exit(77) }
if arguments[2] == "notifications" {
  observe(seconds: Double(arguments[3]) ?? 0)
  exit(0)
}
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
