import Foundation

// Does one Foundation call on a file as an unprivileged user, and prints what came of it: `ok`, or the domain and code
// of the error. It is started as root, since others may not be allowed to read the Swift runtime.
//
// usage: FoundationProbe UID read-data|read-string|read-handle|write|write-atomic FILE

/// What each call is told to write, and what reading must give.
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

let arguments = CommandLine.arguments
guard arguments.count == 4, let user = UInt32(arguments[1]) else { exit(64) }
guard setgroups(0, nil) == 0, setgid(user) == 0, setuid(user) == 0 else { exit(77) }
do {
  print(try run(arguments[2], on: arguments[3]) ? "ok" : "wrong contents")
} catch let error as CocoaError {
  print("cocoa \(error.code.rawValue)")
} catch {
  let error = error as NSError
  print("\(error.domain) \(error.code)")
}
