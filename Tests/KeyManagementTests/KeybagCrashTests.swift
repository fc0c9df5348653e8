import Cryptography
import Foundation
import ProtectfsIO
import ProtectfsPolicy
import SimulatedDisk
import StoreFormat
import SystemPackage
import Testing

@testable import KeyManagement

/// Changes of keys, one after the other, on a simulated disk whose power is cut at each moment: the keybag that is
/// found is the one from before the change or the one from after it, it opens, and what was revoked opens nothing.
@Suite("Power cuts during changes of keys") struct KeybagCrashTests {
  private struct Change: Sendable {
    let name: String
    /// Whether the keybags from before open nothing any more.
    var revokes = false
    /// Which of its flushes, from 1, have to be done when they are.
    let neededFlushes: [Int]
    /// `nil` where there is nothing of the kind to do.
    let edit: @Sendable (borrowing OpenKeybag) throws -> KeybagEdit?

    init(
      _ name: String, revokes: Bool = false, needs flushes: [Int],
      _ edit: @escaping @Sendable (borrowing OpenKeybag) throws -> KeybagEdit?
    ) {
      (self.name, self.revokes, neededFlushes, self.edit) = (name, revokes, flushes, edit)
    }
  }

  private static let changes = [
    Change("add a protector", needs: [1, 3]) { _ in
      .addProtector(NewProtector(.keyFile(SecretBytes([UInt8](repeating: 9, count: 32))), label: "a file"))
    },
    Change("remove the passcode", revokes: true, needs: [2, 3]) { opened in
      guard let passcode = opened.keybag.protectors.first(where: { $0.method.takesPasscode }) else { return nil }
      return .removeProtector(passcode.id)
    },
    Change("begin a rotation", needs: [1]) { _ in .beginRotation(.complete) },
    Change("finish a rotation", revokes: true, needs: []) { opened in
      let ids = opened.keybag.keyIDs(of: .complete)
      return ids.count > 1 ? .finishRotation(.complete, from: ids) : nil
    },
    Change("erase a class", revokes: true, needs: [2, 3]) { _ in .eraseClass(.complete) },
  ]

  /// A store on a simulated disk.
  private final class World {
    let disk = SimulatedDisk()
    let deviceKey: VolumeDeviceKey
    let new: NewKeybag
    /// Keybags that must open nothing any more.
    var revoked: [Keybag] = []
    var earlier: [Keybag] = []

    init() throws {
      let store = try TestStore.read()
      deviceKey = try store.volumeKey()
      new = try store.created()
      try disk.run {
        let backing = try Self.backing()
        try KeybagFile.makeDirectory(in: backing)
        try KeybagFile(backing: backing).commit(new.change)
        try backing.synchronizeFileSystem()
      }
      _ = disk.takeCuts()
    }

    static func backing() throws -> Descriptor { try Descriptor.open(SimulatedDisk.path, [.readOnly, .directory]) }

    func current(_ file: borrowing KeybagFile) throws -> Keybag {
      try Keybag(parsing: file.read(), deviceKey: deviceKey)
    }

    func open(_ keybag: Keybag, _ file: borrowing KeybagFile) throws -> OpenKeybag {
      try file.open(keybag, with: .recoveryKey(new.recoveryKey.text()), deviceKey: deviceKey)
    }

    /// Makes a change. Returns what is in place before and after it; `nil` if there is nothing to do.
    func make(_ change: Change) throws -> (before: Keybag, after: Keybag)? {
      try disk.run {
        let file = try KeybagFile(backing: Self.backing())
        let before = try current(file)
        let opened = try open(before, file)
        guard let edit = try change.edit(opened) else { return nil }
        let applied = try file.apply(edit, to: opened)
        if let failure = applied.failure { throw failure }
        return (before, applied.keybag)
      }
    }

    /// What the next start finds on an image; what is wrong with it, if something is.
    func problem(of image: DiskImage, mayBe expected: [Keybag], revokes: Bool) throws -> String? {
      try SimulatedDisk(image).run {
        let file = try KeybagFile(backing: Self.backing())
        try file.repair(current(file), deviceKey: deviceKey)
        let found = try current(file)
        guard expected.contains(found) else { return "another keybag is in place" }
        _ = try open(found, file).heldKeys(of: ProtectionClass.allCases)
        let dead = revoked + (revokes && found == expected.last ? earlier : [])
        for keybag in dead where keybag.record.effaceableIdentifier != found.record.effaceableIdentifier {
          if file.opens(keybag) { return "a keybag that was revoked opens" }
        }
        return nil
      }
    }
  }

  private struct Figures {
    var sequences = 0
    var images = 0
    var flushes = 0
    var problems: [String] = []
  }

  /// Runs the last change of a sequence with all power cuts; those of the others are in shorter sequences.
  ///
  /// - Parameter pretended: the flush of the first change that is not done.
  private func check(_ sequence: [Change], _ figures: inout Figures, pretended: Int? = nil) throws {
    let world = try World()
    let start = world.disk.flushes
    world.disk.pretendedFlush = pretended.map { start + $0 }
    for (index, change) in sequence.enumerated() {
      guard let (before, after) = try world.make(change) else { return }
      figures.flushes = world.disk.flushes - start
      let cuts = world.disk.takeCuts()
      world.earlier.append(before)
      if index == sequence.count - 1 {
        figures.sequences += 1
        var generator = SystemRandomNumberGenerator()
        for (number, cut) in cuts.enumerated() {
          let isDone = number == cuts.count - 1
          for image in cut.images(using: &generator) {
            figures.images += 1
            let place = "\(sequence.map(\.name).joined(separator: ", ")); cut \(number + 1) of \(cuts.count)"
            do {
              let problem = try world.problem(
                of: image, mayBe: isDone ? [after] : [before, after], revokes: change.revokes)
              if let problem { figures.problems.append("\(place): \(problem)") }
            } catch {
              figures.problems.append("\(place): \(error)")
            }
          }
        }
      }
      if change.revokes { world.revoked += world.earlier }
    }
  }

  /// Two, or as many as `PROTECTFS_SIMULATED_LENGTH` says.
  private static let longest =
    ProcessInfo.processInfo.environment["PROTECTFS_SIMULATED_LENGTH"].flatMap { Int($0) } ?? 2

  /// A disk that only pretends to flush is noticed, but where a later flush makes durable what has to be, before
  /// anything is done that needs it.
  @Test func flushesAreNeeded() throws {
    for change in Self.changes {
      var needed: [Int] = []
      var flush = 1
      var figures = Figures()
      repeat {
        figures = Figures()
        try check([change], &figures, pretended: flush)
        if !figures.problems.isEmpty { needed.append(flush) }
        flush += 1
      } while flush <= figures.flushes
      #expect(needed == change.neededFlushes, "\(change.name)")
    }
  }

  @Test(arguments: 1...longest) func oldOrNew(length: Int) throws {
    var sequences: [[Change]] = [[]]
    for _ in 0..<length { sequences = sequences.flatMap { start in Self.changes.map { start + [$0] } } }
    var figures = Figures()
    for sequence in sequences { try check(sequence, &figures) }
    print(
      "keys: \(figures.sequences) sequences of \(length), \(figures.images) states, \(figures.problems.count) problems")
    for problem in figures.problems.prefix(10) { Issue.record("\(problem)") }
    #expect(figures.problems.isEmpty && figures.images > 100 * length)
  }
}
