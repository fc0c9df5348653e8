import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

/// `replaceItemAt` on a disk. Foundation 6.3 exchanges the items, and then removes the new content.
@Suite struct ItemReplacementTests {
  private let manager = FileManager.default

  @Test func filesAreReplaced() throws {
    let scratch = try Scratch()
    for options in [[], .usingNewMetadataOnly] as [FileManager.ItemReplacementOptions] {
      for backup in [nil, "backup"] {
        try scratch.write("old", to: "old")
        try scratch.write("new", to: "new")
        try Descriptor.open(scratch.path("old"), [.readOnly]).setMode(0o600)
        try Descriptor.open(scratch.path("new"), [.readOnly]).setMode(0o644)
        let url = try manager.replaceItemAt(
          scratch["old"], withItemAt: scratch["new"], backupItemName: backup, options: options)
        #expect(url == scratch["old"])
        #expect(try scratch.text("old") == "new")
        #expect(try scratch.names() == ["old"])
        #expect(try scratch.path("old").status().permissions == (options.isEmpty ? 0o600 : 0o644))
      }
    }
  }

  /// Foundation's other name for the call.
  @Test func replaceItemDoesTheSame() throws {
    let scratch = try Scratch()
    try scratch.write("old", to: "old")
    try scratch.write("new", to: "new")
    let url = try manager.replaceItem(at: scratch["old"], withItemAt: scratch["new"], backupItemName: nil)
    #expect(try url == scratch["old"] && scratch.text("old") == "new" && scratch.names() == ["old"])
  }

  @Test func backupsAreKept() throws {
    let scratch = try Scratch()
    for old in ["first", "second"] {
      try scratch.write(old, to: "old")
      try scratch.write("new", to: "new")
      try manager.replaceItemAt(
        scratch["old"], withItemAt: scratch["new"], backupItemName: "backup", options: .withoutDeletingBackupItem)
      #expect(try scratch.text("old") == "new" && scratch.text("backup") == old)
      #expect(try scratch.names() == ["old", "backup"])
    }
    // A directory in its place is removed.
    try manager.removeItem(at: scratch["backup"])
    try manager.createDirectory(at: scratch["backup/deep"], withIntermediateDirectories: true)
    try scratch.write("newer", to: "new")
    try manager.replaceItemAt(
      scratch["old"], withItemAt: scratch["new"], backupItemName: "backup", options: .withoutDeletingBackupItem)
    #expect(try scratch.text("old") == "newer" && scratch.text("backup") == "new")
  }

  @Test func directoriesAreReplaced() throws {
    let scratch = try Scratch()
    for keepsBackup in [false, true] {
      for name in ["old", "new"] {
        try? manager.removeItem(at: scratch[name])
        try manager.createDirectory(at: scratch["\(name)/deep"], withIntermediateDirectories: true)
        try scratch.write(name, to: "\(name)/deep/\(name)")
      }
      try manager.replaceItemAt(
        scratch["old"], withItemAt: scratch["new"], backupItemName: "backup",
        options: keepsBackup ? .withoutDeletingBackupItem : [])
      let backup = keepsBackup ? ["backup", "backup/deep", "backup/deep/old"] : []
      #expect(try scratch.names() == Set(["old", "old/deep", "old/deep/new"] + backup))
    }
    // A directory and a file.
    try scratch.write("file", to: "new")
    try manager.replaceItemAt(scratch["old"], withItemAt: scratch["new"])
    #expect(try scratch.text("old") == "file")
    try manager.createDirectory(at: scratch["new/deep"], withIntermediateDirectories: true)
    try manager.replaceItemAt(scratch["old"], withItemAt: scratch["new"])
    #expect(try scratch.names() == ["old", "old/deep", "backup", "backup/deep", "backup/deep/old"])
  }

  /// Nothing is removed by a call that cannot do what it says.
  @Test func mistakesChangeNothing() throws {
    let scratch = try Scratch()
    try scratch.write("old", to: "old")
    try scratch.write("new", to: "new")
    try manager.linkItem(at: scratch["old"], to: scratch["same"])
    try manager.createDirectory(at: scratch["holder/deep"], withIntermediateDirectories: true)
    try scratch.write("held", to: "holder/deep/new")
    let before = try scratch.names()
    let keep = FileManager.ItemReplacementOptions.withoutDeletingBackupItem
    let calls: [(String, String, String?)] = [
      ("missing", "new", nil), ("old", "missing", nil), ("old", "old", nil), ("old", "same", nil),
      ("old", "new", "old"), ("old", "new", "new"), ("old", "new", "a/b"), ("old", "new", ".."),
      // What has the name of the backup goes, and this with it.
      ("old", "holder/deep/new", "holder"), ("old", "holder/deep", "holder"),
    ]
    for (old, new, backup) in calls {
      #expect(throws: CocoaError.self, "\(old) \(new) \(backup ?? "-")") {
        try manager.replaceItemAt(scratch[old], withItemAt: scratch[new], backupItemName: backup, options: keep)
      }
      #expect(try scratch.names() == before)
      #expect(try scratch.text("old") == "old" && scratch.text("new") == "new")
    }
    let missing = #expect(throws: CocoaError.self) {
      try manager.replaceItemAt(scratch["missing"], withItemAt: scratch["new"])
    }
    #expect(missing?.code == .fileReadNoSuchFile)
  }

  /// From another file system it is copied.
  @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/shm")))
  func itemsArriveFromElsewhere() throws {
    let scratch = try Scratch()
    let new = URL(fileURLWithPath: "/dev/shm/protectfs-library.\(UUID().uuidString)")
    defer { try? manager.removeItem(at: new) }
    try Data("new".utf8).write(to: new)
    try scratch.write("old", to: "old")
    try manager.replaceItemAt(
      scratch["old"], withItemAt: new, backupItemName: "backup", options: .withoutDeletingBackupItem)
    #expect(try scratch.text("old") == "new" && scratch.text("backup") == "old")
    #expect(!manager.fileExists(atPath: new.path))
    #expect(try scratch.names() == ["old", "backup"])
  }

  @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/shm")))
  func directoriesArriveFromElsewhere() throws {
    let scratch = try Scratch()
    let new = URL(fileURLWithPath: "/dev/shm/protectfs-library.\(UUID().uuidString)")
    defer { try? manager.removeItem(at: new) }
    try manager.createDirectory(at: scratch["old"], withIntermediateDirectories: false)
    try scratch.write("0", to: "old/file")
    for number in 1...2 {
      try manager.createDirectory(at: new, withIntermediateDirectories: false)
      try Data("\(number)".utf8).write(to: new.appending(path: "file"))
      try manager.replaceItemAt(
        scratch["old"], withItemAt: new, backupItemName: "backup", options: .withoutDeletingBackupItem)
      #expect(try scratch.text("old/file") == "\(number)" && scratch.text("backup/file") == "\(number - 1)")
      #expect(!manager.fileExists(atPath: new.path))
      #expect(try scratch.names() == ["old", "old/file", "backup", "backup/file"])
    }
  }

  /// Each reader finds the old or the new item.
  @Test func readersNeverFindNothing() async throws {
    let scratch = try Scratch()
    try scratch.write("0", to: "file")
    let url = scratch["file"]
    let reader = Task.detached {
      var found: Set<String> = []
      repeat {
        found.insert(try String(contentsOf: url, encoding: .utf8))
      } while !Task.isCancelled
      return found
    }
    for number in 1...200 {
      try scratch.write("\(number)", to: "new")
      try manager.replaceItemAt(url, withItemAt: scratch["new"])
    }
    reader.cancel()
    let found = try await reader.value
    #expect(!found.isEmpty && found.allSatisfy { Int($0) != nil }, "\(found)")
    #expect(try scratch.text("file") == "200")
  }
}
