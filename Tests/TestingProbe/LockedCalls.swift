import DataProtection
import DataProtectionTesting
import Foundation
import ProtectfsIO
import SystemPackage

/// Calls on files whose class is locked, and on what is around them.
struct LockedCalls {
  let directory: TemporaryProtectedDirectory
  private let manager = FileManager.default
  private let open: FileHandle
  private let openUnlessOpen: FileHandle

  /// Makes the files, and opens some.
  init(_ directory: TemporaryProtectedDirectory) throws {
    self.directory = directory
    func url(_ name: String) -> URL { directory.url.appending(path: name) }
    for name in ["a", "b", "mode", "victim", "gone", "open"] {
      try Data("text of \(name)".utf8).write(to: url(name), options: .completeFileProtection)
      try url(name).encryptedValues.set("v", forKey: "f")
    }
    try Data("log".utf8).write(to: url("log"), options: .completeFileProtectionUnlessOpen)
    try Data("usable".utf8).write(to: url("usable"))
    for name in ["inbox", "vault", "closed", "shut"] {
      try manager.createDirectory(
        at: url(name), withIntermediateDirectories: false, attributes: [.protectionKey: FileProtectionType.complete])
      try Data("letter".utf8).write(to: url("\(name)/letter"))
    }
    try manager.setAttributes([.posixPermissions: 0], ofItemAtPath: url("shut").path)
    open = try FileHandle(forUpdating: url("open"))
    openUnlessOpen = try FileHandle(forUpdating: url("log"))
  }

  private func url(_ name: String) -> URL { directory.url.appending(path: name) }

  private func text(_ name: String) throws -> String { try String(contentsOf: url(name), encoding: .utf8) }

  private func mode(_ name: String) throws -> String {
    let mode = try manager.attributesOfItem(atPath: url(name).path)[.posixPermissions] as? Int
    return mode.map { String($0, radix: 8) } ?? "none"
  }

  private func setRawAttribute(_ name: String, _ item: String, _ value: String) -> String {
    do throws(Errno) {
      try PathName(url(item).path).setAttribute(PathName(name), to: Array(value.utf8))
      return "ok"
    } catch {
      return "\(error)"
    }
  }

  func callLocked() {
    show("copy of a locked file") { try manager.copyItem(at: url("a"), to: url("a copy")) }
    show("copy of a locked tree") { try manager.copyItem(at: url("vault"), to: url("vault copy")) }
    show("what there is of the copies") {
      [manager.fileExists(atPath: url("a copy").path), manager.fileExists(atPath: url("vault copy").path)]
    }
    show("replacing a locked file") { try manager.replaceItemAt(url("victim"), withItemAt: url("usable")) != nil }
    show("createFile over a locked file") { manager.createFile(atPath: url("victim").path, contents: Data()) }
    show("overwriting a locked file atomically") { try Data("n".utf8).write(to: url("victim"), options: .atomic) }
    show("class of a directory of locked files") { try manager.setProtection(.none, ofItemAt: url("vault")) }
    show("class of what is in it") { try manager.protection(ofItemAt: url("vault/letter")).rawValue }
    show("class of a tree") {
      let result: FileManager.ProtectionTreeResult = try manager.setProtection(
        .completeUnlessOpen, ofTreeAt: url("inbox"))
      return "\(result.changed) \(result.failures.map { "\($0.url.lastPathComponent) \($0.error.code.rawValue)" })"
    }
    show("setting a field") { try url("a").encryptedValues.set("w", forKey: "f") }
    show("removing a field") { try url("a").encryptedValues.removeValue(forKey: "f") }
    show("removing a field that does not exist") { try url("b").encryptedValues.removeValue(forKey: "none") }
    show("reading a field that does not exist") {
      try url("b").encryptedValues.value(forKey: "none", as: String.self) ?? "none"
    }
    show("names of fields") { try url("a").encryptedValues.allKeys() + url("b").encryptedValues.allKeys() }
    show("readable, writable") {
      [manager.isReadableFile(atPath: url("a").path), manager.isWritableFile(atPath: url("a").path)]
    }
    show("mode") { try mode("a") }
    show("changing the mode") { try manager.setAttributes([.posixPermissions: 0o600], ofItemAtPath: url("mode").path) }
    show("changing it with chmod(2)") { unsafe chmod(url("b").path, 0o640) }
    show("the modes then") { try [mode("mode"), mode("b")] }
    show("reading after that") { try text("mode") }
    show("reading b after that") { try text("b") }
    show("a class that is none") { setRawAttribute("user.protectfs.class", "a", "bogus") }
    show("the state as an attribute") { setRawAttribute("user.protectfs.state", ".", "unlocked") }
    show("another name of the mount") { setRawAttribute("user.protectfs.other", "usable", "x") }
    show("the class as an attribute of a locked file") { setRawAttribute("user.protectfs.class", "a", "none") }
    show("a new file in a locked directory") { try Data("n".utf8).write(to: url("closed/new")) }
    show("createFile in a locked directory") { manager.createFile(atPath: url("closed/new").path, contents: nil) }
    show("a new file in a directory of class B") { try Data("n".utf8).write(to: url("inbox/new")) }
    show("reading it") { try text("inbox/new") }
    show("a copy into a locked directory") { try manager.copyItem(at: url("usable"), to: url("closed/usable")) }
    show("a backup of a locked file") {
      try Data("u".utf8).write(to: url("update"))
      return try manager.replaceItemAt(
        url("victim"), withItemAt: url("update"), backupItemName: "backup", options: .withoutDeletingBackupItem) != nil
    }
    show("a locked file to outside") {
      try manager.moveItem(
        at: url("a"), to: manager.temporaryDirectory.appending(path: UUID().uuidString), allowingPlaintext: true)
    }
    show("a new file in a directory that was changed") { try Data("n".utf8).write(to: url("vault/new")) }
    show("reading that") { try text("vault/new") }
    show("moving into a locked directory") { try manager.moveItem(at: url("vault/new"), to: url("inbox/moved")) }
    show("reading what was moved") { try text("inbox/moved") }
    show("moving a usable file into a locked directory") {
      try Data("m".utf8).write(to: url("movable"))
      return try manager.moveItem(at: url("movable"), to: url("closed/movable"))
    }
    show("removing it there") { try manager.removeItem(at: url("closed/movable")) }
    show("reading by an open descriptor") { try open.read(upToCount: 4) ?? Data() }
    show("writing by an open descriptor") { try open.write(contentsOf: Data("x".utf8)) }
    show("reading class B by an open descriptor") { try openUnlessOpen.read(upToCount: 3) ?? Data() }
    show("writing class B by an open descriptor") { try openUnlessOpen.write(contentsOf: Data(" more".utf8)) }
    show("truncating a locked file") { unsafe truncate(url("a").path, 0) == -1 && errno == EACCES }
    show("removing a locked file") { try manager.removeItem(at: url("gone")) }
    show("a new file at its place") { try Data("fresh".utf8).write(to: url("gone")) }
    show("reading it") { try text("gone") }
  }

  func lookAfterUnlock() {
    show("mode of a directory at last") { try mode("shut") }
    show("opening it") {
      try manager.setAttributes([.posixPermissions: 0o755], ofItemAtPath: url("shut").path)
      return try text("shut/letter")
    }
    for name in [
      "a", "b", "mode", "victim", "open", "log", "inbox/letter", "inbox/moved", "inbox/new", "vault/letter", "gone",
    ] {
      show("\(name) at last") {
        let protection: FileProtectionType = try manager.protection(ofItemAt: url(name))
        return try "\(text(name)) \(mode(name)) \(protection.rawValue)"
      }
      show("fields of \(name) at last") { try url(name).encryptedValues.allKeys() }
    }
    show("all at last") { try manager.subpathsOfDirectory(atPath: directory.url.path).sorted() }
  }
}
