import ProtectfsIO
import Synchronization
import SystemPackage
import Testing

@testable import KeyManagement

/// One process at a time changes the keybag, and none keeps the others waiting for good.
@Suite("Writers of a keybag") struct KeybagWritersTests {
  /// A stored keybag as another process has it.
  private func other(_ stored: borrowing StoredKeybag) throws -> KeybagFile {
    var file = try KeybagFile(backing: stored.directory.descriptor)
    file.patience = .seconds(600)
    return file
  }

  /// Expects a call to wait as long as the patience of a file, of which no time is lost, and then to give up.
  private func expectImpatience(_ body: () throws -> Void, location: SourceLocation = #_sourceLocation) {
    let time = SimulatedTime()
    _ = time.run {
      #expect(throws: KeyManagementError.keybagInUse, sourceLocation: location, performing: body)
    }
    #expect(time.passed >= .seconds(600) && time.passed < .seconds(601), sourceLocation: location)
  }

  private func addition(_ stored: borrowing StoredKeybag, to keybag: Keybag) throws -> KeybagChange {
    let opened = try stored.file.open(
      keybag, with: .recoveryKey(stored.new.recoveryKey.text()), deviceKey: stored.deviceKey)
    return try opened.changed(by: .beginRotation(.complete))
  }

  /// Another process has the lock, and keeps it. Nothing is changed; only an erasure does not wait.
  @Test(arguments: ["keybag", "keybag.new"] as [PathName]) func isNotWaitedForForGood(_ name: PathName) throws {
    let stored = try StoredKeybag()
    let file = try other(stored)
    let held = try file.directory.open(name, [.readWrite, .create], mode: 0o600)
    try held.lock()
    let change = try addition(stored, to: stored.keybag)
    expectImpatience { try file.commit(change) }
    let found = try file.authenticKeybags(of: stored.keybag.storeID, stored.deviceKey)
    expectImpatience { try file.restore(stored.keybag, over: found) }
    expectImpatience { try file.repair(stored.keybag, deviceKey: stored.deviceKey) }
    #expect(try file.read() == stored.keybag.bytes)

    let erasure = try SimulatedTime().run { try file.erase(stored.keybag, deviceKey: stored.deviceKey) }
    #expect(erasure.failure == nil)
    #expect(try file.read() == erasure.tombstone.bytes)
    _ = consume held
  }

  /// A writer whose keybag is in place already, and who is at the second copy, is waited for.
  @Test func hasItToTheEnd() throws {
    let stored = try StoredKeybag()
    let path: PathName = "keybag.previous.new"
    let held = try stored.file.directory.open(path, [.readWrite, .create], mode: 0o600)
    try held.lock()
    let change = try addition(stored, to: stored.keybag)
    let (backing, bytes) = (PathName(stored.directory.path), change.keybag.bytes)
    let shared = SharedChange(change)
    let failure = Mutex<KeyManagementError?>(nil)
    let writing = Thread(name: "writing") {
      do {
        var file = try KeybagFile(backing: Descriptor.open(backing, [.readOnly, .directory]))
        file.patience = .seconds(600)
        try file.commit(shared.change)
      } catch {
        failure.withLock { [error] in $0 = error as? KeyManagementError ?? .keybagMissing }
      }
    }
    while try stored.file.read() != bytes { _ = Semaphore().wait(microseconds: 1000) }
    let next = try addition(stored, to: Keybag(parsing: bytes, deviceKey: stored.deviceKey))
    let file = try other(stored)
    expectImpatience { try file.commit(next) }
    #expect(try file.read() == bytes)
    _ = consume held
    writing.join()
    #expect(failure.withLock { $0 } == nil)
    #expect(try file.readPrevious() == bytes)
    try stored.file.commit(next)
    #expect(try file.read() == next.keybag.bytes)
  }
}

/// A closure cannot capture a change.
private final class SharedChange: Sendable {
  let change: KeybagChange

  init(_ change: consuming KeybagChange) { self.change = change }
}
