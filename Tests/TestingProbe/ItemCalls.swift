import DataProtection
import DataProtectionTesting
import Foundation
import ProtectfsIO

/// The calls that copy, move, replace and create, and what is seen of what they have made: before a lock, during it and
/// after it.
struct ItemCalls {
  let directory: TemporaryProtectedDirectory
  /// An ordinary directory.
  let outside: URL
  private let manager = FileManager.default

  private func url(_ name: String) -> URL { directory.url.appending(path: name) }

  private func make(_ name: String, _ options: Data.WritingOptions = .completeFileProtection) throws {
    try Data("x of \(name)".utf8).write(to: url(name), options: options)
    try url(name).encryptedValues.set("field of \(name)", forKey: "field")
  }

  private func makeDirectory(_ name: String, _ protection: FileProtectionType) throws {
    try manager.createDirectory(
      at: url(name), withIntermediateDirectories: false, attributes: [.protectionKey: protection])
  }

  /// Calls all of them while everything can be used.
  func callUnlocked() throws {
    for name in ["replaced", "copied", "created", "written", "saved", "moved", "leaving", "traded", "renamed"] {
      try make(name)
    }
    try makeDirectory("tree", .complete)
    try make("tree/explicit", .noFileProtection)
    try Data("inherits".utf8).write(to: url("tree/inherits"))
    try Data("n".utf8).write(to: url("new"))
    try Data("m".utf8).write(to: url("plain"))
    for name in ["foreign", "arriving", "trade"] { try Data(name.utf8).write(to: outside.appending(path: name)) }

    show("replaceItemAt") { try manager.replaceItemAt(url("replaced"), withItemAt: url("new")) != nil }
    show("replaceItemAt from outside") {
      try manager.replaceItemAt(url("traded"), withItemAt: outside.appending(path: "trade")) != nil
    }
    show("copyItem") { try manager.copyItem(at: url("copied"), to: url("copy")) }
    show("copyItem of a tree") { try manager.copyItem(at: url("tree"), to: url("tree copy")) }
    show("copyItem from outside") { try manager.copyItem(at: outside.appending(path: "foreign"), to: url("foreign")) }
    show("copyItem to outside") { try manager.copyItem(at: url("copied"), to: outside.appending(path: "out")) }
    show("createFile over one") { manager.createFile(atPath: url("created").path, contents: Data("z".utf8)) }
    show("createFile with a class") {
      manager.createFile(
        atPath: url("created A").path, contents: Data("z".utf8),
        attributes: [.protectionKey: FileProtectionType.complete])
    }
    show("write atomically") { try Data("z".utf8).write(to: url("written"), options: .atomic) }
    show("write a text") { try "z".write(to: url("saved"), atomically: true, encoding: .utf8) }
    show("moveItem into a directory") { try manager.moveItem(at: url("moved"), to: url("tree/moved")) }
    show("moveItem out of a directory") { try manager.moveItem(at: url("tree/inherits"), to: url("inherits")) }
    show("moveItem of a file of C") { try manager.moveItem(at: url("plain"), to: url("tree/plain")) }
    show("moveItem from outside") { try manager.moveItem(at: outside.appending(path: "arriving"), to: url("arriving")) }
    show("moveItem to outside") { try manager.moveItem(at: url("leaving"), to: outside.appending(path: "leaving")) }
    show("rename") { unsafe rename(url("renamed").path, url("tree/renamed").path) }
    show("rename to outside") {
      unsafe rename(url("copied").path, outside.appending(path: "raw").path) == -1 && errno == EXDEV
    }
    show("link") { try manager.linkItem(at: url("copied"), to: url("tree/link")) }
  }

  /// All that there is after ``callUnlocked()``.
  private var items: [String] {
    [
      "replaced", "traded", "copied", "copy", "foreign", "created", "created A", "written", "saved", "leaving",
      "inherits", "arriving", "tree", "tree copy", "tree/moved", "tree/explicit", "tree/plain", "tree/renamed",
      "tree/link", "tree copy/explicit", "tree copy/inherits",
    ]
  }

  /// What is seen of each.
  func look() {
    for name in items {
      let item = url(name)
      show("\(name), class") { try manager.protection(ofItemAt: item).rawValue }
      show("\(name), attributes") { try names(of: item).sorted() }
      show("\(name), field") { try item.encryptedValues.value(forKey: "field", as: String.self) ?? "none" }
      show("\(name), mode") { try manager.attributesOfItem(atPath: item.path)[.posixPermissions] ?? "none" }
      show("\(name), is readable, writable") {
        [manager.isReadableFile(atPath: item.path), manager.isWritableFile(atPath: item.path)]
      }
      show("\(name), device") {
        let device = try manager.attributesOfItem(atPath: item.path)[.systemNumber] as? Int
        return try device == manager.attributesOfItem(atPath: directory.url.path)[.systemNumber] as? Int
      }
      var isDirectory: ObjCBool = false
      guard unsafe manager.fileExists(atPath: item.path, isDirectory: &isDirectory), !isDirectory.boolValue else {
        continue
      }
      show("\(name), content") { try String(contentsOf: item, encoding: .utf8) }
      show("\(name), open(2)") {
        let file = unsafe open(item.path, O_RDONLY)
        defer { close(file) }
        return file >= 0 ? "open" : errno == EACCES ? "EACCES" : "\(errno)"
      }
    }
  }

  private func names(of item: URL) throws -> [String] {
    try PathName(item.path).attributeNames().map(\.description).filter { $0.hasPrefix("user.") }
  }
}
