import Cryptography
import Foundation
import ProtectfsIO
import ProtectfsPolicy
import SimulatedDisk
import StoreFormat
import SystemPackage

@testable import KeyManagement

/// A change of keys.
struct KeyChange: Sendable {
  let name: String
  /// Whether the keybags from before open nothing any more.
  var retires = false
  /// Whether the keybag and its second copy change places.
  var exchanges = false
  /// Which of its flushes, from 1, have to be done when they are.
  let neededFlushes: [Int]
  /// Returns the keybag that is then in place; `nil` where there is nothing of the kind to do.
  let make: @Sendable (SimulatedKeys, borrowing KeybagFile, borrowing OpenKeybag) throws -> Keybag?

  init(
    _ name: String, retires: Bool = false, exchanges: Bool = false, needs flushes: [Int],
    _ make: @escaping @Sendable (SimulatedKeys, borrowing KeybagFile, borrowing OpenKeybag) throws -> Keybag?
  ) {
    (self.name, self.retires, self.exchanges, neededFlushes, self.make) = (name, retires, exchanges, flushes, make)
  }

  /// A change by an edit.
  static func edit(
    _ name: String, retires: Bool = false, needs flushes: [Int],
    _ edit: @escaping @Sendable (SimulatedKeys, borrowing OpenKeybag) throws -> KeybagEdit?
  ) -> KeyChange {
    KeyChange(name, retires: retires, needs: flushes) { keys, file, opened in
      guard let edit = try edit(keys, opened) else { return nil }
      let applied = try file.apply(edit, to: opened)
      if let failure = applied.failure { throw failure }
      return applied.keybag
    }
  }

  static let all = edits + replacements

  private static let edits: [KeyChange] = [
    .edit("add a protector", needs: [1, 3]) { _, _ in
      .addProtector(NewProtector(.keyFile(SecretBytes([UInt8](repeating: 9, count: 32))), label: "a file"))
    },
    .edit("remove the passcode", retires: true, needs: [2, 3]) { _, opened in
      guard let passcode = opened.keybag.protectors.first(where: { $0.method.takesPasscode }) else { return nil }
      return .removeProtector(passcode.id)
    },
    KeyChange("change the passcode", retires: true, needs: [2, 3]) { _, file, opened in
      guard opened.keybag.protectors.contains(where: { $0.method.takesPasscode }) else { return nil }
      let change = try opened.changed(by: .changePasscode(SecretBytes(Array("another".utf8))), cost: TestStore.cost)
      try file.commit(change)
      return change.keybag
    },
    .edit("begin a rotation", needs: [1]) { _, _ in .beginRotation(.complete) },
    .edit("finish a rotation", retires: true, needs: []) { _, opened in
      let ids = opened.keybag.keyIDs(of: .complete)
      return ids.count > 1 ? .finishRotation(.complete, from: ids) : nil
    },
    .edit("erase a class", retires: true, needs: [2, 3]) { _, _ in .eraseClass(.complete) },
    .edit("take in the keys of the first keybag", needs: []) { keys, opened in
      let first = try keys.first()
      return opened.keybag.lacking(keysOf: first.keybag).isEmpty ? nil : .takeKeys(first)
    },
    KeyChange("erase the store", retires: true, needs: [1, 3]) { keys, file, opened in
      let erasure = try file.erase(opened.keybag, deviceKey: keys.deviceKey)
      if let failure = erasure.failure { throw failure }
      return erasure.tombstone
    },
  ]
}

/// A store on a simulated disk.
final class SimulatedKeys {
  let disk = SimulatedDisk()
  let deviceKey: VolumeDeviceKey
  let new: NewKeybag
  /// What opens the keybags that imports have made.
  var recoveryKeys: [[UInt8]] = []
  /// Keybags that must open nothing any more.
  var retired: [Keybag] = []
  var earlier: [Keybag] = []

  init() throws {
    let store = try TestStore.read()
    deviceKey = try store.volumeKey()
    new = try Simulation.repeatably(.store) { try store.created() }
    try disk.run {
      let backing = try Self.backing()
      try KeybagFile.makeDirectory(in: backing)
      try KeybagFile(backing: backing).commit(new.change)
      try backing.synchronizeFileSystem()
    }
  }

  static func backing() throws -> Descriptor { try Descriptor.open(SimulatedDisk.path, [.readOnly, .directory]) }

  /// The keybag in place, or what an erasure that was cut short has left.
  func current(_ file: borrowing KeybagFile) throws -> Keybag {
    let keybag = try Keybag(parsing: file.read(), deviceKey: deviceKey)
    return file.tombstone(of: keybag, deviceKey) ?? keybag
  }

  func open(_ keybag: Keybag, _ file: borrowing KeybagFile) throws -> OpenKeybag {
    for key in recoveryKeys {
      do {
        return try file.open(keybag, with: .recoveryKey(SecretBytes(key)), deviceKey: deviceKey)
      } catch KeyManagementError.wrongRecoveryKey { continue }
    }
    return try file.open(keybag, with: .recoveryKey(new.recoveryKey.text()), deviceKey: deviceKey)
  }

  /// The first keybag, as an exported one.
  func first() throws -> OpenKeybag {
    try new.keybag.open(
      .recoveryKey(new.recoveryKey.text()), deviceKey: deviceKey, effaceable: new.change.secret.copy())
  }

  /// Makes a change. Returns what is in place before and after it; `nil` if there is nothing to do.
  ///
  /// - Parameter prepare: called when all that it needs is open.
  func make(_ change: KeyChange, _ prepare: () -> Void = {}) throws -> (before: Keybag, after: Keybag)? {
    try disk.run {
      let file = try KeybagFile(backing: Self.backing())
      let before = try current(file)
      if before.erasureTime != nil { return nil }
      let opened = try open(before, file)
      prepare()
      return try change.make(self, file, opened).map { (before, $0) }
    }
  }

  /// The keybag that is in place.
  func found() throws -> Keybag {
    try disk.run { try current(KeybagFile(backing: Self.backing())) }
  }

  /// The keybag in place and its second copy, before a change by which they change places; `nil` before others.
  func exchanged(by change: KeyChange) throws -> Set<[UInt8]>? {
    try disk.run { change.exchanges ? try Self.both(KeybagFile(backing: Self.backing())) : nil }
  }

  private static func both(_ file: borrowing KeybagFile) throws -> Set<[UInt8]> {
    try [file.read(), file.readPrevious()]
  }

  /// What the next start finds on an image; what is wrong with it, if something is.
  ///
  /// - Parameter both: what is there, in whichever place, where the two change places.
  func problem(
    of image: DiskImage, mayBe expected: [Keybag], retires: Bool, both: Set<[UInt8]>?
  ) throws -> String? {
    try SimulatedDisk(image).run {
      let file = try KeybagFile(backing: Self.backing())
      if let both {
        // The first step of the repair, which may then find that one of them is of no more use.
        try file.finishRestoration()
        guard try Self.both(file) == both else { return "one of the two that change places is lost" }
      }
      try file.repair(current(file), deviceKey: deviceKey)
      let found = try current(file)
      guard expected.contains(found) else { return "another keybag is in place" }
      if found.erasureTime == nil { _ = try open(found, file).heldKeys(of: ProtectionClass.allCases) }
      let dead = retired + (retires && found == expected.last ? earlier : [])
      for keybag in dead where keybag.record.effaceableIdentifier != found.record.effaceableIdentifier {
        if file.opens(keybag) { return "a keybag that was retired opens" }
      }
      return nil
    }
  }
}
