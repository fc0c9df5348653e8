import Cryptography
import Foundation
import ProtectfsIO
import ProtectfsPolicy
import StoreCheck
import StoreFormat
import SystemPackage
import Testing

@testable import KeyManagement

/// A defect, how it is planted into an intact store, and what a check must report.
struct PlantedDefect: Sendable, CustomTestStringConvertible {
  enum Repair: Sendable { case fixed, moved, left }

  let name: String
  let defect: Defect
  let repair: Repair
  /// Whether it is found only with the passcode.
  var needsPasscode = false
  /// Plants the defect and returns where it must be found: the backing path, and the plain path if it can be decrypted.
  let plant: @Sendable (BuiltStore) throws -> (String, String?)

  var testDescription: String { "\(defect.rawValue): \(name)" }

  static let all: [PlantedDefect] = keybags + names + directories + files + keys + links + attributes

  // MARK: The keybag

  private static let current = "/.protectfs/keybag"
  private static let previous = "/.protectfs/keybag.previous"
  private static let effaceable = "/.protectfs/effaceable"

  static let keybags = [
    PlantedDefect(name: "removed", defect: .keybagMissing, repair: .fixed) { store in
      try store.remove(current)
      return (current, nil)
    },
    PlantedDefect(name: "cut off", defect: .keybagDamaged, repair: .moved) { store in
      try store.write(Array(store.keybag.bytes.dropLast()), to: current)
      return (current, nil)
    },
    PlantedDefect(name: "of another store", defect: .keybagDamaged, repair: .moved) { store in
      try store.write(BuiltStore(isAnother: true).keybag.bytes, to: current)
      return (current, nil)
    },
    PlantedDefect(name: "a bit of its tag", defect: .keybagDamaged, repair: .moved) { store in
      var bytes = store.keybag.bytes
      bytes[bytes.count - 1] ^= 1
      try store.write(bytes, to: current)
      return (current, nil)
    },
    PlantedDefect(name: "a public key exchanged", defect: .keybagSealWrong, repair: .left, needsPasscode: true) {
      store in
      var record = store.keybag.record
      for index in record.classEntries.indices where record.classEntries[index].publicKey != nil {
        record.classEntries[index].publicKey = try OnePassDiffieHellman.KeyPair().publicKey
      }
      record.tag = try Keybag.tag(of: record, store.deviceKey)
      try store.write(record.bytes, to: current)
      try store.write(record.bytes, to: previous)
      return (current, nil)
    },
    PlantedDefect(name: "removed", defect: .previousKeybagMissing, repair: .fixed) { store in
      try store.remove(previous)
      return (previous, nil)
    },
    PlantedDefect(name: "emptied", defect: .previousKeybagDamaged, repair: .moved) { store in
      try store.write([], to: previous)
      return (previous, nil)
    },
    PlantedDefect(name: "a directory", defect: .previousKeybagDamaged, repair: .moved) { store in
      try store.remove(previous)
      try store.makePlainDirectory(previous)
      return (previous, nil)
    },
    PlantedDefect(name: "before a change of keys", defect: .keybagStale, repair: .moved) { store in
      let old = store.keybag.bytes
      try store.rotateAway(.complete, but: "")
      try store.write(old, to: current)
      return (current, nil)
    },
    PlantedDefect(name: "two generations old", defect: .previousKeybagUnrelated, repair: .left) { store in
      try store.changeKeybag(times: 2)
      return (previous, nil)
    },
    PlantedDefect(name: "overwritten", defect: .effaceableSecretMissing, repair: .left) { store in
      try store.write([UInt8](repeating: 0, count: 16_384), to: effaceable)
      return (effaceable, nil)
    },
    PlantedDefect(name: "removed", defect: .effaceableSecretMissing, repair: .left) { store in
      try store.remove(effaceable)
      return (effaceable, nil)
    },
    PlantedDefect(name: "the first", defect: .effaceableCopyDamaged, repair: .fixed) { store in
      var bytes = try store.read(effaceable)
      bytes[0] ^= 1
      try store.write(bytes, to: effaceable)
      return (effaceable, nil)
    },
    PlantedDefect(name: "the second", defect: .effaceableCopyDamaged, repair: .fixed) { store in
      try store.write(Array(store.read(effaceable)[..<4100]), to: effaceable)
      return (effaceable, nil)
    },
    PlantedDefect(name: "a change cut short", defect: .keybagLeftover, repair: .fixed) { store in
      try store.write([1, 2, 3], to: current + ".new")
      return (current + ".new", nil)
    },
    PlantedDefect(name: "a second copy cut short", defect: .keybagLeftover, repair: .fixed) { store in
      try store.write([], to: previous + ".new")
      return (previous + ".new", nil)
    },
    PlantedDefect(name: "a keybag on its way to be the second copy", defect: .keybagLeftover, repair: .fixed) { store in
      try store.write([], to: previous + ".link")
      return (previous + ".link", nil)
    },
  ]

  // MARK: Names

  static let longName = String(repeating: "n", count: 200)

  static let names = [
    PlantedDefect(name: "a file", defect: .foreignEntry, repair: .moved) { store in
      try store.write(Array("mine".utf8), to: "/notes.txt")
      return ("/notes.txt", nil)
    },
    PlantedDefect(name: "a tree", defect: .foreignEntry, repair: .moved) { store in
      try store.makePlainDirectory("/tree")
      try store.write(Array("mine".utf8), to: "/tree/notes.txt")
      return ("/tree", nil)
    },
    PlantedDefect(name: "a directory with a sidecar's name", defect: .foreignEntry, repair: .moved) { store in
      let item = try store.place(longName, in: store.root)
      try store.remove(item.backingPath + ".name")
      try store.makePlainDirectory(item.backingPath + ".name")
      return (item.backingPath + ".name", nil)
    },
    PlantedDefect(name: "a file with a sidecar's name", defect: .foreignEntry, repair: .moved) { store in
      let item = try store.place(longName, in: store.root)
      try store.write([UInt8](repeating: 1, count: 4096), to: item.backingPath + ".name")
      return (item.backingPath + ".name", nil)
    },
    PlantedDefect(name: "of another directory", defect: .nameDamaged, repair: .moved) { store in
      (try store.makeFile("name", encryptedIn: [UInt8](repeating: 1, count: 16)).backingPath, nil)
    },
    PlantedDefect(name: "of another directory, with its sidecar", defect: .nameDamaged, repair: .moved) { store in
      (try store.makeFile(longName, encryptedIn: [UInt8](repeating: 1, count: 16)).backingPath, nil)
    },
    PlantedDefect(name: "a name with a slash", defect: .nameDamaged, repair: .moved) { store in
      (try store.makeFile("a/b").backingPath, nil)
    },
    PlantedDefect(name: "removed", defect: .sidecarMissing, repair: .moved) { store in
      let item = try store.makeFile(longName)
      try store.remove(item.backingPath + ".name")
      return (item.backingPath, nil)
    },
    PlantedDefect(name: "another's content", defect: .sidecarDamaged, repair: .moved) { store in
      let item = try store.makeFile(longName)
      try store.write([UInt8](repeating: 1, count: 216), to: item.backingPath + ".name")
      return (item.backingPath, nil)
    },
    PlantedDefect(name: "a directory", defect: .sidecarDamaged, repair: .moved) { store in
      let item = try store.makeFile(longName)
      try store.remove(item.backingPath + ".name")
      try store.makePlainDirectory(item.backingPath + ".name")
      return (item.backingPath, nil)
    },
    PlantedDefect(name: "its file removed", defect: .orphanSidecar, repair: .fixed) { store in
      (try store.place(longName, in: store.root).backingPath + ".name", nil)
    },
    PlantedDefect(name: "empty", defect: .orphanSidecar, repair: .fixed) { store in
      let item = try store.place(longName, in: store.root)
      try store.write([], to: item.backingPath + ".name")
      return (item.backingPath + ".name", nil)
    },
  ]
}
