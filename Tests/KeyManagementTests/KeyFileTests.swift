import Cryptography
import LinuxIO
import StoreFormat
import Synchronization
import SystemPackage
import TestVectors
import Testing

@testable import KeyManagement

@Suite("The keybag's file") struct KeybagFileTests {
  private func created(_ store: TestStore) throws -> Keybag.New {
    try Keybag.create(
      passcode: store.passcode(), deviceKey: store.volumeKey(), storeID: store.id(), cost: TestStore.cost)
  }

  /// A keybag changed by its passcode, which stays the same.
  private func changed(
    _ keybag: Keybag, _ effaceable: borrowing EffaceableSecret, _ store: TestStore
  ) throws -> KeybagChange {
    try keybag.open(passcode: store.passcode(), deviceKey: store.volumeKey(), effaceable: effaceable.copy())
      .changingPasscode(to: store.passcode(), cost: TestStore.cost)
  }

  @Test func isReplacedBySuccessorsOnly() throws {
    let directory = try TemporaryDirectory()
    #expect(throws: KeyManagementError.keybagMissing) { _ = try KeybagFile(backing: directory.descriptor) }
    try KeybagFile.makeDirectory(in: directory.descriptor)
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    #expect(throws: KeyManagementError.keybagMissing) { _ = try file.read() }

    let store = try TestStore.read()
    let new = try created(store)
    let first = new.keybag
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) {
      try file.commit(changed(first, new.effaceable, store))
    }
    try file.create(first, new.effaceable)
    #expect(try file.read() == first.bytes)
    #expect(try file.readPrevious() == first.bytes)

    let opened = try file.open(first, with: .passcode(store.passcode()), deviceKey: store.volumeKey())
    let added = try opened.adding(.keyFile(SecretBytes(randomCount: 32)), label: "a file")
    try file.commit(added)
    #expect(try file.read() == added.keybag.bytes)
    #expect(try file.readPrevious() == first.bytes)
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) { try file.commit(added) }
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) {
      try file.commit(changed(first, new.effaceable, store))
    }
    #expect(try file.read() == added.keybag.bytes)
    #expect(directory.names(in: ".protectfs") == ["effaceable", "keybag", "keybag.previous"])
  }

  /// A new passcode leaves nothing that the old one opens: no second copy, and no secret for an older one.
  @Test func whatRevokesLeavesNothing() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    let store = try TestStore.read()
    let new = try created(store)
    try file.create(new.keybag, new.effaceable)
    let old = try Array(directory.read(".protectfs/effaceable"))
    #expect(try file.hasBothEffaceableCopies(of: new.keybag))

    let change = try changed(new.keybag, new.effaceable, store)
    try file.commit(change)
    #expect(try file.read() == change.keybag.bytes)
    #expect(try file.readPrevious() == change.keybag.bytes)
    #expect(throws: KeyManagementError.effaceableSecretMissing) { _ = try file.effaceableSecret(of: new.keybag) }
    #expect(try file.hasBothEffaceableCopies(of: change.keybag))
    let secret = old[..<32]
    #expect(try !Array(directory.read(".protectfs/effaceable")).contains(secret))
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try file.open(new.keybag, with: .passcode(store.passcode()), deviceKey: store.volumeKey())
    }
    _ = try file.open(change.keybag, with: .passcode(store.passcode()), deviceKey: store.volumeKey()).classKeys()
  }

  /// A change cut short after the keybag took its place is finished by whoever has the store next.
  @Test func settling() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    let store = try TestStore.read()
    let new = try created(store)
    try file.create(new.keybag, new.effaceable)
    let before = try directory.read(".protectfs/effaceable")
    let change = try changed(new.keybag, new.effaceable, store)
    try file.commit(change)
    // As it was after step 2: both secrets, and the old second copy.
    var both = try directory.read(".protectfs/effaceable")
    both.replaceSubrange(0..<32, with: before[0..<32])
    both.replaceSubrange(4096..<4128, with: before[4096..<4128])
    try directory.write(".protectfs/effaceable", both)
    try directory.write(".protectfs/keybag.previous", new.keybag.bytes)
    _ = try file.effaceableSecret(of: new.keybag)

    try file.settle(change.keybag)
    #expect(try file.readPrevious() == change.keybag.bytes)
    #expect(throws: KeyManagementError.effaceableSecretMissing) { _ = try file.effaceableSecret(of: new.keybag) }
    _ = try file.effaceableSecret(of: change.keybag)

    // And after step 1: a secret that no keybag has yet.
    var early = try directory.read(".protectfs/effaceable")
    early.replaceSubrange(0..<32, with: [UInt8](repeating: 7, count: 32))
    try directory.write(".protectfs/effaceable", early)
    try file.settle(change.keybag)
    #expect(try Array(directory.read(".protectfs/effaceable")[..<32]) == [UInt8](repeating: 0, count: 32))
    _ = try file.effaceableSecret(of: change.keybag)
  }

  /// Either copy of the effaceable secret will do.
  @Test func effaceableCopies() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    let store = try TestStore.read()
    let new = try created(store)
    try file.create(new.keybag, new.effaceable)
    let whole = try directory.read(".protectfs/effaceable")
    for place in [0, 4096] {
      var damaged = whole
      damaged[place] ^= 1
      try directory.write(".protectfs/effaceable", damaged)
      #expect(try !file.hasBothEffaceableCopies(of: new.keybag))
      _ = try file.open(new.keybag, with: .passcode(store.passcode()), deviceKey: store.volumeKey()).classKeys()
      try file.restoreEffaceableCopies(of: new.keybag)
      #expect(try directory.read(".protectfs/effaceable") == whole)
    }
    var damaged = whole
    damaged[0] ^= 1
    damaged[4096] ^= 1
    try directory.write(".protectfs/effaceable", damaged)
    #expect(throws: KeyManagementError.effaceableSecretMissing) { _ = try file.effaceableSecret(of: new.keybag) }
  }

  @Test func foreignStoresAreNotReplaced() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    let file = try KeybagFile(backing: directory.descriptor)
    let store = try TestStore.read()
    try directory.write(".protectfs/keybag", store.keybag.bytes)
    let other = try Keybag.create(
      passcode: "1".secret, deviceKey: VolumeDeviceKey(SecretBytes(randomCount: 32)), storeID: .random(),
      cost: TestStore.cost)
    #expect(throws: KeyManagementError.keybagChangedMeanwhile) { try file.create(other.keybag, other.effaceable) }
    try file.commit(changed(store.parsed(), .absent(), store))
    #expect(try file.readPrevious() == file.read())

    try directory.write(".protectfs/keybag", [1, 2, 3])
    #expect(throws: KeyManagementError.self) { try file.create(other.keybag, other.effaceable) }
    #expect(try file.read() == [1, 2, 3])
  }

  @Test func hugeFilesAreReadInPart() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    try directory.write(".protectfs/keybag", [UInt8](repeating: 0, count: 100_000))
    let file = try KeybagFile(backing: directory.descriptor)
    #expect(try file.read().count == KeybagRecord.longest + 1)
  }

  /// A fifo in place of the keybag must not make the reader wait.
  @Test func otherTypesAreRefused() throws {
    let directory = try TemporaryDirectory()
    try KeybagFile.makeDirectory(in: directory.descriptor)
    try directory.descriptor.makeNode(".protectfs/keybag", mode: 0o010600, device: 0)
    let file = try KeybagFile(backing: directory.descriptor)
    #expect(throws: KeyManagementError.keybagUnreadable(.invalidArgument)) { _ = try file.read() }
  }
}

@Suite("Atomic replacement") struct AtomicFileTests {
  private func commit(_ bytes: [UInt8], to name: PathName, in directory: borrowing Descriptor, mayReplace: Bool = true)
    throws
  {
    var file = try AtomicFile(replacing: name, in: directory)
    try unsafe bytes.withUnsafeBytes { try unsafe file.commit($0, mayReplace: mayReplace) }
  }

  @Test func replacesAsAWhole() throws {
    let directory = try TemporaryDirectory()
    try commit([1, 2, 3], to: "a", in: directory.descriptor)
    try commit([4], to: "a", in: directory.descriptor)
    #expect(try directory.read("a") == [4])
    #expect(try directory.descriptor.status(of: "a").permissions == 0o600)
    #expect(throws: Errno.fileExists) { try commit([5], to: "a", in: directory.descriptor, mayReplace: false) }
    #expect(try directory.read("a") == [4])
    #expect(directory.names() == ["a"])
  }

  @Test func leavesNothingBehindUncommitted() throws {
    let directory = try TemporaryDirectory()
    do { _ = try AtomicFile(replacing: "a", in: directory.descriptor) }
    #expect(directory.names() == [])
  }

  @Test func leftoversOfACrashAreUsedAgain() throws {
    let directory = try TemporaryDirectory()
    try directory.write("a", [1])
    try directory.write("a.new", [9, 9, 9, 9, 9, 9], mode: 0o644)
    try commit([2], to: "a", in: directory.descriptor)
    #expect(try directory.read("a") == [2])
    #expect(try directory.descriptor.status(of: "a").permissions == 0o600)
    #expect(directory.names() == ["a"])
  }

  /// Cut short between any two of its steps, a change leaves names that the next one copes with.
  @Test(arguments: [["a.new", "b.link"], ["a.new", "b.link", "b"], ["a.new", "b"], ["a.new"]])
  func changesCutShort(_ linked: [String]) throws {
    let directory = try TemporaryDirectory()
    try directory.write("a", [1])
    for name in linked where name != "a.new" {
      try directory.descriptor.link("a", to: PathName(name), in: directory.descriptor)
    }
    try directory.write("a.new", [9])
    for value: UInt8 in 2...3 {
      var file = try AtomicFile(replacing: "a", in: directory.descriptor)
      try unsafe [value].withUnsafeBytes { try unsafe file.commit($0, keepingPreviousAs: "b") }
      #expect(try directory.read("a") == [value])
      #expect(try directory.read("b") == [value - 1])
      #expect(directory.names() == ["a", "b"])
    }
    try commit([4], to: "b", in: directory.descriptor)
    #expect(try directory.read("a") == [3])
  }

  private final class Done: Sendable {
    let flag = Atomic(false)
    let begun = Atomic(false)
  }

  /// Whoever looks at a file that is being replaced finds it, and the one before.
  @Test func noNameGoesMissing() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.path
    try directory.write("a", [0])
    try directory.write("b", [0])
    let done = Done()
    try await withThrowingTaskGroup(of: Int.self) { group in
      group.addTask {
        let own = try Descriptor.open(PathName(path), [.readOnly, .directory])
        defer { done.flag.store(true, ordering: .relaxed) }
        while !done.begun.load(ordering: .relaxed) { await Task.yield() }
        for value: UInt8 in 1...200 {
          var file = try AtomicFile(replacing: "a", in: own)
          try unsafe [value].withUnsafeBytes { try unsafe file.commit($0, keepingPreviousAs: "b") }
        }
        return 0
      }
      group.addTask {
        let own = try Descriptor.open(PathName(path), [.readOnly, .directory])
        var looks = 0
        defer { done.begun.store(true, ordering: .relaxed) }
        while !done.flag.load(ordering: .relaxed) {
          _ = try own.status(of: "a")
          _ = try own.status(of: "b")
          done.begun.store(true, ordering: .relaxed)
          looks += 1
        }
        return looks
      }
      var looks = 0
      for try await count in group { looks += count }
      #expect(looks > 0)
    }
  }

  /// Writers that each add one to what they read: none is lost.
  @Test func writersTakeTurns() async throws {
    let directory = try TemporaryDirectory()
    try directory.write("count", [0])
    let path = directory.path
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          for _ in 0..<25 {
            let own = try Descriptor.open(PathName(path), [.readOnly, .directory])
            var file = try AtomicFile(replacing: "count", in: own)
            let count = try own.open("count", [.readOnly]).readAll(limit: 2)
            try unsafe [count[0] + 1].withUnsafeBytes {
              try unsafe file.commit($0, keepingPreviousAs: "count.previous")
            }
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try directory.read("count") == [100])
    #expect(try directory.read("count.previous") == [99])
  }
}

@Suite("Device key files") struct DeviceKeyTests {
  private func id() throws -> StoreID { try TestStore.read().id() }

  @Test func isMadeOnceAndFound() throws {
    let directory = try TemporaryDirectory()
    let path = PathName("\(directory.path)/device.key")
    #expect(throws: KeyManagementError.deviceKeyMissing(path: path.description)) {
      _ = try DeviceKey.load(for: id(), file: path)
    }
    let made = try DeviceKey.loadOrCreate(for: id(), file: path).secret.exposed()
    #expect(try DeviceKey.load(for: id(), file: path).secret.exposed() == made)
    #expect(try DeviceKey.loadOrCreate(for: id(), file: path).secret.exposed() == made)
    #expect(try DeviceKey.load(for: .random(), file: path).secret.exposed() != made)
    #expect(try directory.descriptor.status(of: "device.key").permissions == 0o600)
    let stored = try directory.read("device.key")
    #expect(stored.count == 32)
    #expect(made != stored)
    #expect(try made == VolumeDeviceKey(deviceKey: SecretBytes(stored), storeID: id()).secret.exposed())
  }

  @Test func recoveredKeysAreKept() throws {
    let directory = try TemporaryDirectory()
    let key = try VolumeDeviceKey(SecretBytes(randomCount: 32))
    let path = try DeviceKey.keep(key, for: id(), in: PathName(directory.path))
    #expect(path.description == "\(directory.path)/\(try id()).key")
    #expect(try DeviceKey.load(for: id(), file: path).secret.exposed() == key.secret.exposed())
    try DeviceKey.keep(key, for: id(), in: PathName(directory.path))
    let other = try VolumeDeviceKey(SecretBytes(randomCount: 32))
    #expect(throws: KeyManagementError.deviceKeyUnreadable(path: path.description, .fileExists)) {
      try DeviceKey.keep(other, for: id(), in: PathName(directory.path))
    }
    #expect(directory.names() == ["\(try id()).key"])
  }

  @Test(arguments: [0o640, 0o604, 0o644, 0o660, 0o601] as [UInt32]) func exposedKeysAreRefused(_ mode: UInt32) throws {
    let directory = try TemporaryDirectory()
    try directory.write("device.key", [UInt8](repeating: 1, count: 32), mode: mode)
    let path = PathName("\(directory.path)/device.key")
    #expect(throws: KeyManagementError.deviceKeyExposed(path: path.description)) {
      _ = try DeviceKey.load(for: id(), file: path)
    }
  }

  @Test(arguments: [0, 31, 33, 64]) func otherLengthsAreRefused(_ count: Int) throws {
    let directory = try TemporaryDirectory()
    try directory.write("device.key", [UInt8](repeating: 1, count: count))
    let path = PathName("\(directory.path)/device.key")
    #expect(throws: KeyManagementError.deviceKeyMalformed(path: path.description)) {
      _ = try DeviceKey.load(for: id(), file: path)
    }
  }

  @Test func otherTypesAreRefused() throws {
    let directory = try TemporaryDirectory()
    #expect(throws: KeyManagementError.deviceKeyMalformed(path: directory.path)) {
      _ = try DeviceKey.load(for: id(), file: PathName(directory.path))
    }
  }
}
