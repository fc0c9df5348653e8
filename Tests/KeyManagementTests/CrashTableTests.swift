import Cryptography
import Foundation
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

@testable import KeyManagement

/// A change of keys ends after any of its steps. What is on disk then, and what the next start makes of it, is what the
/// table in ARCHITECTURE.md says; in each of its lines a keybag that was acknowledged opens, with all its class keys.
@Suite("The table of crashes") final class CrashTableTests {
  /// A store whose second copy is an older keybag, or one with more keys.
  private struct Start: ~Copyable {
    let stored: StoredKeybag
    let keybag, second: Keybag

    /// - Parameter other: one from which this differs in nothing.
    init(hasMore: Bool, as other: Keybag? = nil) throws {
      let stored = try StoredKeybag()
      let opened = try stored.open(.recoveryKey(stored.new.recoveryKey.text()))
      var record = opened.keybag.record
      record.generation = 2
      let keybag = try opened.keys.keybag(of: record)
      if hasMore { try opened.keys.addKey(of: .standard, to: &record) }
      let second = if let other { other } else { hasMore ? try opened.keys.keybag(of: record) : stored.keybag }
      try stored.directory.write(".protectfs/keybag", keybag.bytes)
      try stored.directory.write(".protectfs/keybag.previous", second.bytes)
      self.stored = stored
      self.keybag = keybag
      self.second = second
    }

    /// As the next start does.
    func repair() throws {
      try stored.file.repair(
        Keybag(parsing: stored.file.read(), deviceKey: stored.deviceKey), deviceKey: stored.deviceKey)
    }

    func opened() throws -> OpenKeybag {
      try stored.file.open(
        keybag, with: .recoveryKey(stored.new.recoveryKey.text()), deviceKey: stored.deviceKey)
    }
  }

  private struct Edit: Sendable {
    /// As in the table.
    let name: String
    var hasMore = false
    let make: @Sendable (borrowing Start) throws -> KeybagChange
  }

  private static let keyFile = [UInt8](repeating: 9, count: 32)

  private static let edits: [Edit] = [
    Edit(name: "protector added") { start in
      try start.opened().changed(by: .addProtector(NewProtector(.keyFile(SecretBytes(keyFile)), label: "a file")))
    },
    Edit(name: "class key added, keys imported") { try $0.opened().changed(by: .beginRotation(.standard)) },
    Edit(name: "passcode changed, protector removed, class key retired or erased") { start in
      let passcode = try #require(start.keybag.protectors.first { $0.method.takesPasscode })
      return try start.opened().changed(by: .removeProtector(passcode.id))
    },
    Edit(name: "keys of the second copy taken in", hasMore: true) { start in
      let opened = try start.opened()
      let second = try opened.refreshed(start.second, in: start.stored.file)
      return try opened.united(with: second)
    },
    Edit(name: "class erased, keys of the second copy do not fit", hasMore: true) { start in
      let opened = try start.opened()
      let change = try opened.changed(by: .eraseClass(.complete))
      let after = opened.following(change)
      var record = start.second.record
      record.classEntries = try after.keys.rewrapped(record.classEntries, from: opened.keys)
      return KeybagChange(
        change.keybag, secret: change.secret.copy(), over: .keybag(start.keybag), .retirementInBoth,
        second: try after.keys.keybag(of: record))
    },
    Edit(name: "reset") { start in
      let new = try start.keybag.resetting(
        passcode: start.stored.store.passcode(), deviceKey: start.stored.deviceKey,
        effaceable: start.stored.file.effaceableSecret(of: start.keybag), cost: TestStore.cost)
      return copy(new.change)
    },
    Edit(name: "import in place of the keybag") { start in
      let bytes = try start.opened().exported(for: "backup".secret, cost: TestStore.cost).bytes
      let exported = try Keybag.open(exported: bytes, backupPasscode: "backup".secret)
      let new = try exported.replacement(
        over: start.stored.file.authenticKeybags(beside: exported), passcode: "new".secret, cost: TestStore.cost)
      return copy(new.change)
    },
  ]

  private static func copy(_ change: borrowing KeybagChange) -> KeybagChange {
    KeybagChange(change.keybag, secret: change.secret.copy(), over: change.place, change.steps, second: change.second)
  }

  @Test func everyStepLeavesWhatTheTableSays() throws {
    var lines: [String] = []
    for edit in Self.edits {
      let first = try Start(hasMore: edit.hasMore)
      let change = try edit.make(first)
      for count in 0...change.steps.count {
        let start = try Start(hasMore: edit.hasMore, as: first.second)
        try start.stored.file.perform(Array(change.steps.prefix(count)), of: change)
        let before = try state(of: start, change)
        try expectOpens(start, change, "\(edit.name), after \(count) steps")
        try start.repair()
        let after = try state(of: start, change)
        try expectOpens(start, change, "\(edit.name), repaired after \(count) steps")
        if count == 0 {
          #expect(after == before)
        } else {
          lines.append(
            "| \(edit.name) | \(change.steps[count - 1]) | \(before) | \(after == before ? "the same" : after) |")
        }
        // What was repaired is left as it is.
        try start.repair()
        #expect(try state(of: start, change) == after)
        if count == change.steps.count { #expect(try start.stored.file.read() == change.keybag.bytes) }
      }
    }
    let document = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .appendingPathComponent("../../Documentation/ARCHITECTURE.md")
    let table = try String(contentsOf: document, encoding: .utf8).split(separator: "\n").map(String.init)
    let names = Self.edits.map { "| \($0.name) |" }
    let written = table.filter { line in names.contains { line.hasPrefix($0) } }
    #expect(written == lines, "\(lines.joined(separator: "\n"))")
  }

  /// The keybag, the second copy, and whose secrets there are, as the table names them.
  private func state(of start: borrowing Start, _ change: borrowing KeybagChange) throws -> String {
    func name(_ bytes: [UInt8]) -> String {
      switch bytes {
      case change.keybag.bytes: "new"
      case change.second?.bytes: "new with its own keys"
      case start.keybag.bytes: "old"
      case start.second.bytes: change.second != nil || change.steps == .union ? "with more" : "older"
      default: "unknown"
      }
    }
    let storage = try EffaceableStorage(in: start.stored.file.directory)
    func has(_ keybag: Keybag) -> Bool {
      (try? storage.secret(keybag.record.effaceableIdentifier ?? [], of: keybag.storeID)) != nil
    }
    let isSame = start.keybag.record.effaceableIdentifier == change.keybag.record.effaceableIdentifier
    var secrets = has(start.keybag) ? ["old"] : []
    if !isSame, has(change.keybag) { secrets.append("new") }
    return try
      "\(name(start.stored.file.read())), \(name(start.stored.file.readPrevious())), \(secrets.joined(separator: " and "))"
  }

  /// The keybag in place opens with the secret that belongs to it, and every class key that was there is in one of the
  /// two that open, but for those whose end was asked for.
  private func expectOpens(_ start: borrowing Start, _ change: borrowing KeybagChange, _ place: Comment) throws {
    var ids: Set<ClassKeyID> = []
    for bytes in [try start.stored.file.read(), try start.stored.file.readPrevious()] {
      let keybag = try Keybag(parsing: bytes, deviceKey: start.stored.deviceKey)
      guard start.stored.file.opens(keybag) else { continue }
      ids.formUnion(keybag.record.classEntries.map(\.id))
      // A reset and an import have a recovery key of their own.
      guard keybag != change.keybag || change.steps != .replacement else { continue }
      let opened = try start.stored.file.open(
        keybag, with: .recoveryKey(start.stored.new.recoveryKey.text()), deviceKey: start.stored.deviceKey)
      #expect(throws: Never.self, place) { _ = try opened.heldKeys(of: ProtectionClass.allCases) }
    }
    let current = try Keybag(parsing: start.stored.file.read(), deviceKey: start.stored.deviceKey)
    let isOpened = start.stored.file.opens(current)
    #expect(isOpened, place)
    let wanted = Set((start.keybag.record.classEntries + start.second.record.classEntries).map(\.id))
    let ended = Set(current.record.formerKeys.map(\.id))
    #expect(wanted.subtracting(ids).isSubset(of: ended), place)
  }
}
