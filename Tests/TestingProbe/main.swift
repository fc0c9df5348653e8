import DataProtection
import DataProtectionTesting
import Foundation

// Uses a directory of DataProtectionTesting as an app uses one, and prints what it sees, a line each.
//
// usage: PROTECTFS_TESTING=mount|stand-in TestingProbe

/// What came of a call: `ok`, or the code and the reason of the error.
func outcome(_ call: () throws -> Any) -> String {
  do {
    return "\(try call())"
  } catch {
    let code = (error as? CocoaError)?.code.rawValue ?? -1
    return switch ProtectedDataError(diagnosing: error)?.reason {
    case .locked(let protectionClass, let end): "\(code) locked \(protectionClass.letter) \(end)"
    case let reason?: "\(code) \(reason)"
    case nil: code < 0 ? "\(error)" : "\(code)"
    }
  }
}

func show(_ name: String, _ call: () throws -> Any) {
  print("\(name): \(outcome(call))")
}

/// The availability of a class, as events report it.
func events(_ directory: TemporaryProtectedDirectory) -> AsyncStream<String> {
  let (stream, continuation) = AsyncStream.makeStream(of: String.self)
  let events = ProtectedData.events(at: directory.url)
  let task = Task {
    for await event in events {
      switch event {
      case .didBecomeAvailable: continuation.yield("available")
      case .didBecomeUnavailable: continuation.yield("unavailable")
      default: break
      }
    }
  }
  continuation.onTermination = { _ in task.cancel() }
  return stream
}

try await withTemporaryProtectedDirectory { directory in
  let url = directory.url
  let manager = FileManager.default
  func text(_ name: String) throws -> String { try String(contentsOf: url.appending(path: name), encoding: .utf8) }
  func write(_ text: String, _ name: String, _ options: Data.WritingOptions = []) throws -> String {
    try Data(text.utf8).write(to: url.appending(path: name), options: options)
    return "ok"
  }
  func protection(_ name: String) throws -> String {
    let type: FileProtectionType = try manager.protection(ofItemAt: url.appending(path: name))
    return type.rawValue
  }

  var reported = events(directory).makeAsyncIterator()
  print("event:", await reported.next() ?? "")
  show("state") { try ProtectedData.state(at: url) }

  show("write A") { try write("diary", "A", .completeFileProtection) }
  show("write A atomically") { try write("diary", "A2", [.atomic, .completeFileProtection]) }
  show("write B") { try write("log", "B", .completeFileProtectionUnlessOpen) }
  show("write") { try write("music", "C") }
  show("write D") { try write("icon", "D", .noFileProtection) }
  try manager.createDirectory(
    at: url.appending(path: "folder"), withIntermediateDirectories: false,
    attributes: [.protectionKey: FileProtectionType.complete])
  show("write into a directory of A") { try write("letter", "folder/inherits") }
  let names = ["A", "A2", "B", "C", "D", "folder", "folder/inherits"]
  for name in names { show("class of \(name)") { try protection(name) } }
  try manager.setProtection(.completeUnlessOpen, ofItemAt: url.appending(path: "folder"))
  show("class in a directory that was changed") { try protection("folder/inherits") }
  try url.appending(path: "A").encryptedValues.set("Dr. Weber", forKey: "author")

  func look() {
    show("state") { try ProtectedData.state(at: url) }
    show("available") { ProtectedData.isAvailable(at: url) }
    for name in names where name != "folder" {
      show("read \(name)") { try text(name) }
      show("class of \(name)") { try protection(name) }
    }
    show("field") { try url.appending(path: "A").encryptedValues.value(forKey: "author", as: String.self) ?? "none" }
    show("names of fields") { try url.appending(path: "A").encryptedValues.allKeys() }
    show("size") { try manager.attributesOfItem(atPath: url.appending(path: "A").path)[.size] ?? "none" }
  }
  look()

  try directory.lock()
  print("event:", await reported.next() ?? "")
  look()
  show("overwrite A") { try write("changed", "A", .completeFileProtection) }
  show("overwrite A without an option") { try write("changed", "A") }
  show("overwrite C") { try write("changed", "C") }
  show("new A") { try write("new", "newA", .completeFileProtection) }
  show("new B") { try write("new", "newB", .completeFileProtectionUnlessOpen) }
  show("read new B") { try text("newB") }
  show("class of new B") { try protection("newB") }
  show("C to A") { try manager.setProtection(.complete, ofItemAt: url.appending(path: "C")) }
  show("A to D") { try manager.setProtection(.none, ofItemAt: url.appending(path: "A")) }
  show("move") { try manager.moveItem(at: url.appending(path: "A2"), to: url.appending(path: "moved")) }
  show("write anew") { try write("new", "fresh") }
  func replaceLocked() throws {
    try manager.replaceItemAt(
      url.appending(path: "folder/inherits"), withItemAt: url.appending(path: "fresh"),
      options: .usingNewMetadataOnly)
  }
  show("replace a locked file", replaceLocked)
  show("class of what it was to be") { try protection("fresh") }
  show("remove") { try manager.removeItem(at: url.appending(path: "D")) }

  try directory.unlock()
  print("event:", await reported.next() ?? "")
  show("read A") { try text("A") }
  show("read moved") { try text("moved") }
  show("class of moved") { try protection("moved") }
  show("read C") { try text("C") }
  show("read new B") { try text("newB") }
}

try await withTemporaryProtectedDirectory { directory in
  let outside = FileManager.default.temporaryDirectory.appending(path: "protectfs-outside.\(UUID().uuidString)")
  try FileManager.default.createDirectory(at: outside, withIntermediateDirectories: false)
  let items = ItemCalls(directory: directory, outside: outside)
  let calls = try LockedCalls(directory)
  try items.callUnlocked()
  items.look()
  try directory.lock()
  items.look()
  calls.callLocked()
  try directory.unlock()
  items.look()
  calls.lookAfterUnlock()
  try FileManager.default.removeItem(at: outside)
}
