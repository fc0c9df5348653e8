import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import TestVectors
import Testing

@testable import KeyManagement

@Suite("Hosts of a store") struct HostTests {
  private static let passcode = "a host's own passcode"

  /// A store, and a machine that has asked to become a host of it.
  private struct Pair: ~Copyable {
    let stored: StoredKeybag
    let file: PathName
    let request: HostRequestRecord
    let code: [UInt8]
    var opened: OpenKeybag

    init(classes: [ProtectionClass]) throws {
      let stored = try StoredKeybag()
      let file = PathName(stored.directory.path + "/own.host")
      let made = try HostKey.create(
        for: stored.keybag.storeID, label: "web1", classes: classes, passcode: HostTests.passcode.secret, file: file,
        cost: TestStore.cost)
      let code = try made.code.text().exposed()
      try HostRequests.add(made.request, to: stored.directory.descriptor)
      let opened = try stored.open(.passcode(stored.store.passcode()))
      self.request = made.request
      self.code = code
      self.file = file
      self.opened = opened
      self.stored = stored
    }

    func effaceable() throws -> EffaceableSecret { try stored.file.effaceableSecret(of: opened.keybag) }

    mutating func apply(_ edit: consuming KeybagEdit) throws {
      let applied = try stored.file.apply(edit, to: opened)
      opened = applied.takeOpened()
    }

    func requests() throws -> HostRequests {
      guard let requests = try HostRequests(in: stored.directory.descriptor, of: stored.keybag.storeID) else {
        throw KeyManagementError.noSuchRequest
      }
      return requests
    }

    mutating func accept(_ classes: [ProtectionClass]? = nil) throws {
      var request = try requests().request(of: PairingCode(parsing: SecretBytes(code)))
      if let classes { request.classes = classes }
      try apply(.addHost(request))
    }

    /// The device key of the host, as the store has it for it now.
    func deviceKey() throws -> VolumeDeviceKey {
      try DeviceKey.load(for: KeybagRecord(parsing: stored.file.read()), file: file)
    }

    /// The store, as the host opens it now.
    func open(_ passcode: String = HostTests.passcode) throws -> OpenKeybag {
      let deviceKey = try deviceKey()
      let file = try KeybagFile(backing: stored.directory.descriptor, host: deviceKey.host)
      let keybag = try Keybag(parsing: file.read(), deviceKey: deviceKey)
      return try file.open(keybag, with: .passcode(passcode.secret), deviceKey: deviceKey)
    }
  }

  private func keys(_ opened: borrowing OpenKeybag) throws -> [ProtectionClass: [ExposedKey]] {
    try opened.heldKeys().exposed()
  }

  @Test(arguments: [[ProtectionClass.completeUntilFirstUserAuthentication], .ofHosts])
  func aHostOpensItsClassesAlone(classes: [ProtectionClass]) throws {
    var pair = try Pair(classes: classes)
    #expect(throws: KeyManagementError.hostUnknown) { _ = try pair.open() }
    try pair.accept()
    let own = try keys(pair.open())
    let all = try keys(pair.opened)
    for fileClass in [ProtectionClass].ofHosts {
      #expect(own[fileClass] == (classes.contains(fileClass) ? all[fileClass] : []), "\(fileClass)")
    }
    let held = try pair.open().heldKeys(of: [.none])
    #expect(held[.none]?.map(\.id) == pair.opened.keybag.keyIDs(of: .none))
    #expect(throws: KeyManagementError.wrongPasscode) { _ = try pair.open("another") }
    // Its wrong passcodes are its own.
    #expect(try pair.stored.attempts().count == 0)
  }

  /// What it is given may be less than it asks for.
  @Test func aHostGetsWhatItIsGiven() throws {
    var pair = try Pair(classes: .ofHosts)
    try pair.accept([.complete])
    let own = try keys(pair.open())
    #expect(own[.complete]?.count == 1 && own[.completeUntilFirstUserAuthentication]?.isEmpty == true)
  }

  /// One step changes the keybag for all hosts, and what was wrapped for them before opens nothing after a retirement.
  @Test func changesReachAHost() throws {
    var pair = try Pair(classes: [.completeUntilFirstUserAuthentication])
    try pair.accept()
    let old = try keys(pair.open())
    let fileClass = ProtectionClass.completeUntilFirstUserAuthentication
    try pair.apply(.beginRotation(fileClass))
    let both = try keys(pair.open())[fileClass]
    #expect(both?.count == 2 && both?.first == old[fileClass]?.first)
    let before = try pair.stored.file.read()
    try pair.apply(.finishRotation(fileClass, from: pair.opened.keybag.keyIDs(of: fileClass)))
    #expect(try keys(pair.open())[fileClass] == both?.suffix(1).map { $0 })
    // The keybag before, put back: its effaceable secret is gone.
    let deviceKey = try pair.deviceKey()
    let keybag = try Keybag(parsing: before, deviceKey: deviceKey)
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try pair.stored.file.open(keybag, with: .passcode(Self.passcode.secret), deviceKey: deviceKey)
    }
    try pair.apply(.eraseClass(fileClass))
    #expect(try keys(pair.open())[fileClass] != both?.suffix(1).map { $0 })
    #expect(try keys(pair.open())[fileClass] == keys(pair.opened)[fileClass])
  }

  @Test func aHostChangesNothing() throws {
    var pair = try Pair(classes: .ofHosts)
    try pair.accept()
    let opened = try pair.open()
    let bytes = try pair.stored.file.read()
    #expect(throws: KeyManagementError.hostsChangeNothing) {
      _ = try pair.stored.file.apply(.changePasscode("new".secret), to: opened)
    }
    #expect(throws: KeyManagementError.hostsChangeNothing) {
      _ = try pair.stored.file.apply(.eraseClass(.complete), to: opened)
    }
    #expect(throws: KeyManagementError.hostsChangeNothing) { _ = try opened.exported(for: "new".secret) }
    let deviceKey = try pair.deviceKey()
    #expect(throws: KeyManagementError.hostsChangeNothing) {
      _ = try pair.opened.keybag.resetting(passcode: "new".secret, deviceKey: deviceKey, effaceable: nil)
    }
    #expect(try pair.stored.file.read() == bytes)
  }

  /// The passcode is the host's own; the keybag stays as it is.
  @Test func itsPasscodeIsItsOwn() throws {
    var pair = try Pair(classes: .ofHosts)
    try pair.accept()
    let bytes = try pair.stored.file.read()
    try pair.open().changeHostPasscode(to: "new".secret, cost: TestStore.cost)
    #expect(throws: KeyManagementError.wrongPasscode) { _ = try pair.open() }
    #expect(try keys(pair.open("new")) == keys(pair.opened))
    #expect(try pair.stored.file.read() == bytes)
    #expect(throws: KeyManagementError.hostPasscodeNeeded) { try pair.opened.changeHostPasscode(to: "x".secret) }
    // A passcode change of the store is nothing to the host.
    try pair.apply(.changePasscode("the store's next".secret))
    #expect(try keys(pair.open("new")) == keys(pair.opened))
  }

  @Test func aRemovedHostOpensNothing() throws {
    var pair = try Pair(classes: .ofHosts)
    try pair.accept()
    let deviceKey = try pair.deviceKey()
    let before = try Keybag(parsing: pair.stored.file.read(), deviceKey: deviceKey)
    try pair.apply(.removeProtector(pair.request.id))
    #expect(try !KeybagRecord(parsing: pair.stored.file.read()).features.contains(.hosts))
    #expect(throws: KeyManagementError.hostUnknown) { _ = try pair.open() }
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try pair.stored.file.open(before, with: .passcode(Self.passcode.secret), deviceKey: deviceKey)
    }
    // The same request makes it a host again, as the code is needed for it.
    try pair.accept()
    #expect(throws: KeyManagementError.hostExists) { try pair.accept() }
    // Hosts alone would open no keybag.
    for id in pair.opened.keybag.protectors.filter({ $0.method.host == nil }).map(\.id).dropLast() {
      try pair.apply(.removeProtector(id))
    }
    let last = try #require(pair.opened.keybag.protectors.first { $0.method.host == nil })
    #expect(throws: KeyManagementError.lastProtector) { try pair.apply(.removeProtector(last.id)) }
  }

  /// Whoever can write the store, and has the volume's device key as every host has, makes no keybag that a host takes.
  @Test func anotherHostForgesNothing() throws {
    var pair = try Pair(classes: .ofHosts)
    try pair.accept()
    let deviceKey = try pair.deviceKey()
    let own = pair.opened.keybag.record
    let index = try #require(own.protectors.firstIndex { $0.method.host != nil })
    let changes: [(inout KeybagRecord) -> Void] = [
      { record in
        for index in record.classEntries.indices where record.classEntries[index].publicKey != nil {
          record.classEntries[index].publicKey?[0] ^= 1
        }
      },
      { $0.generation += 1 },
      { $0.protectors[index].label = "web2" },
      { record in
        guard var host = record.protectors[index].method.host else { return }
        host.wrappedClassKeys.swapAt(0, 1)
        record.protectors[index].method = .host(host)
      },
      { record in
        guard var host = record.protectors[index].method.host else { return }
        host.seal[31] ^= 1
        record.protectors[index].method = .host(host)
      },
    ]
    for change in changes {
      var record = own
      change(&record)
      record.tag = try Keybag.tag(of: record, deviceKey)
      let forged = try Keybag(parsing: record.bytes, deviceKey: deviceKey)
      #expect(throws: KeyManagementError.keybagAltered) {
        _ = try pair.stored.file.open(forged, with: .passcode(Self.passcode.secret), deviceKey: deviceKey)
      }
    }
  }

  /// As many as a keybag counts, and no more.
  @Test func aKeybagIsFull() throws {
    var pair = try Pair(classes: [.complete])
    try pair.accept()
    var record = pair.opened.keybag.record
    let host = try #require(record.protectors.first { $0.method.host != nil })
    while record.protectors.count < 255 {
      var other = host
      other.id = try randomBytes(16)
      record.insert(other)
    }
    let keybag = try pair.opened.keys.keybag(of: record)
    #expect(try KeybagRecord(parsing: keybag.bytes) == keybag.record)
    let opened = OpenKeybag(
      keybag: keybag, protectorID: pair.opened.protectorID, keys: pair.opened.keys.with(try pair.effaceable()))
    #expect(throws: KeyManagementError.keybagFull) {
      _ = try opened.changed(by: .addProtector(NewProtector(.keyFile(SecretBytes(count: 32)), label: "one more")))
    }
    #expect(try opened.changed(by: .removeProtector(host.id)).keybag.protectors.count == 254)
  }

  @Test func anErasedStoreSaysSo() throws {
    var pair = try Pair(classes: [.complete])
    try pair.accept()
    let erased = try pair.opened.keybag.erased(deviceKey: pair.stored.deviceKey)
    let time = try #require(erased.erasureTime)
    #expect(throws: KeyManagementError.storeErased(at: time)) {
      _ = try DeviceKey.load(for: erased.record, file: pair.file)
    }
  }

  @Test func requestsAreTheirCodes() throws {
    var pair = try Pair(classes: [.complete])
    let requests = try pair.requests()
    #expect(try requests.all() == [pair.request])
    #expect(throws: KeyManagementError.noSuchRequest) { _ = try requests.request(of: PairingCode()) }
    let name = "\(NameEncoding.storeDirectory)/hosts/\(pair.request.id.hexadecimal).request"
    let bytes = try pair.stored.directory.read(name)
    // Whoever changes what a host asks for must have the code.
    let classes = bytes.count - 32 - 40 - 1
    var changed = bytes
    changed[classes] = 0x47
    try pair.stored.directory.write(name, changed)
    #expect(try requests.all().first?.classes == .ofHosts)
    #expect(throws: KeyManagementError.noSuchRequest) { try pair.accept() }
    // What is no request is passed over.
    for other in [Array(bytes.dropLast()), bytes + [0], []] {
      try pair.stored.directory.write(name, other)
      #expect(try requests.all() == [])
    }
    try pair.stored.directory.write(name, bytes)
    try pair.accept()
    try requests.remove(pair.request.id)
    try requests.remove(pair.request.id)
    #expect(try requests.all() == [])
  }

  /// A host goes on with a changed keybag without its passcode: with new keys of classes that it has keys of in memory.
  @Test func aHostFollows() throws {
    var pair = try Pair(classes: [.complete, .completeUntilFirstUserAuthentication])
    try pair.accept()
    let deviceKey = try pair.deviceKey()
    let controller = LockController(
      keybag: pair.opened.keybag,
      noneKeys: try pair.opened.keybag.noneClassKeys(deviceKey: deviceKey, effaceable: pair.effaceable()))
    let opened = try pair.open()
    for (fileClass, held) in try opened.heldKeys() { controller.install(held, for: fileClass) }
    let seal = try #require(try opened.hostSealKey())
    controller.wipe(.complete)
    for fileClass in [ProtectionClass.complete, .completeUntilFirstUserAuthentication, .none] {
      try pair.apply(.beginRotation(fileClass))
    }
    let keys = try seal.keys(of: pair.opened.keybag, deviceKey, pair.effaceable(), for: controller)
    let expected = try pair.opened.heldKeys(of: ProtectionClass.allCases)
    for fileClass in ProtectionClass.allCases {
      let follows = fileClass == .none || fileClass == .completeUntilFirstUserAuthentication
      #expect(
        keys[fileClass]?.map { $0.secret.exposed() }
          == (follows ? expected[fileClass]?.map { $0.secret.exposed() } : nil))
    }
    var record = pair.opened.keybag.record
    record.generation += 1
    record.tag = try Keybag.tag(of: record, deviceKey)
    let forged = try Keybag(parsing: record.bytes, deviceKey: deviceKey)
    #expect(throws: KeyManagementError.keybagAltered) {
      _ = try seal.keys(of: forged, deviceKey, pair.effaceable(), for: controller)
    }
  }

  /// What a host is given later opens with its passcode; what it is to have no more is retired with the keybag before.
  @Test func aHostGetsOtherClasses() throws {
    var pair = try Pair(classes: [.complete])
    try pair.accept()
    let id = pair.request.id
    #expect(throws: KeyManagementError.hostWithoutClasses) { try pair.apply(.setHost(id, classes: [.none])) }
    let others = pair.opened.keybag.protectors.map(\.id).filter { $0 != id } + [[UInt8](repeating: 0, count: 16)]
    for other in others {
      #expect(throws: KeyManagementError.noSuchProtector) { try pair.apply(.setHost(other, classes: [.complete])) }
    }
    try pair.apply(.setHost(id, classes: [.completeWhenUserInactive, .complete]))
    let deviceKey = try pair.deviceKey()
    let more = try Keybag(parsing: pair.stored.file.read(), deviceKey: deviceKey)
    var (own, all) = (try keys(pair.open()), try keys(pair.opened))
    for fileClass in [ProtectionClass.complete, .completeWhenUserInactive] { #expect(own[fileClass] == all[fileClass]) }
    try pair.apply(.setHost(id, classes: [.completeUntilFirstUserAuthentication]))
    (own, all) = (try keys(pair.open()), try keys(pair.opened))
    for fileClass in [ProtectionClass].ofHosts {
      let has = fileClass == .completeUntilFirstUserAuthentication
      #expect(own[fileClass] == (has ? all[fileClass] : []), "\(fileClass)")
    }
    #expect(throws: KeyManagementError.effaceableSecretMissing) {
      _ = try pair.stored.file.open(more, with: .passcode(Self.passcode.secret), deviceKey: deviceKey)
    }
  }

  /// Whoever knows the volume's device key makes requests, and says that it has locked; nobody else does.
  @Test func locksOfAllHosts() throws {
    let stored = try StoredKeybag()
    let locks = try HostLocks(of: stored.keybag.storeID, stored.deviceKey)
    let web1 = [UInt8](repeating: 1, count: 16)
    #expect(locks.request(beside: stored.file) == nil)
    let first = try locks.newRequest(.lock, by: web1)
    try locks.make(first, beside: stored.file)
    #expect(
      locks.request(beside: stored.file)?.bytesBeforeTag == first.bytesBeforeTag
        && locks.request(beside: stored.file)?.host == web1)
    for host in [web1, nil] {
      #expect(locks.isAcknowledged(first, by: host, beside: stored.file) == false)
      try locks.acknowledge(first, by: host, beside: stored.file)
      #expect(locks.isAcknowledged(first, by: host, beside: stored.file) == true)
    }
    let second = try locks.newRequest(.lockEveryClass, by: nil)
    #expect(second.request != first.request)
    try locks.make(second, beside: stored.file)
    #expect(locks.request(beside: stored.file)?.content == .lockEveryClass)
    #expect(locks.isAcknowledged(second, by: web1, beside: stored.file) == false, "of the first request")
    // Another host's word is not this one's, nor is a request one.
    let (own, others) = ("\(web1.hexadecimal).locked", "\(HostLockRecord.none.hexadecimal).locked")
    try locks.acknowledge(second, by: nil, beside: stored.file)
    for name in ["hosts/\(others)", "lock"] {
      try stored.directory.write(".protectfs/hosts/\(own)", stored.directory.read(".protectfs/\(name)"))
      #expect(locks.isAcknowledged(second, by: web1, beside: stored.file) == false)
    }
    var forged = try stored.directory.read(".protectfs/lock")
    forged[30] ^= 1
    try stored.directory.write(".protectfs/lock", forged)
    #expect(locks.request(beside: stored.file) == nil)
    try stored.directory.write(".protectfs/lock", stored.directory.read(".protectfs/hosts/\(others)"))
    #expect(locks.request(beside: stored.file) == nil, "no request")
  }

  private static func isRefused(_ record: HostRequestRecord, _ code: borrowing PairingCode) throws -> Bool {
    if case .some = try HostRequest.open(record, code) { false } else { true }
  }

  @Test func vectors() throws {
    struct Vector: Decodable {
      let storeID, id, passcode, hostKey, pairingCode, file, request, lock, locked: Hex
      let label: String
      let lockContent: UInt8
    }
    let store = try TestStore.read(6)
    let volume = try store.volumeKey()
    let keybag = try store.parsed()
    #expect(keybag.bytes == store.keybag.bytes && keybag.record.features == [.hosts, .effaceableSecret])
    let directory = try TemporaryDirectory()
    for vector in try VectorFile.read("StoreFormatTests/hosts", as: Vector.self) {
      try directory.write("own.host", vector.file.bytes)
      let key = try DeviceKey.load(for: keybag.record, file: PathName(directory.path + "/own.host"))
      #expect(key.secret.exposed() == volume.secret.exposed())
      let opened = try keybag.open(
        passcode: SecretBytes(vector.passcode.bytes), deviceKey: key, effaceable: store.effaceableSecret())
      let classes = keybag.protectors.first { $0.label == vector.label }?.method.host?.classes ?? []
      for (fileClass, keys) in try opened.heldKeys().exposed() {
        #expect(keys == (classes.contains(fileClass) ? store.expectedKeys(of: fileClass) : []))
      }
      let record = try HostRequestRecord(parsing: vector.request.bytes)
      #expect(record.bytes == vector.request.bytes && record.classes == classes)
      let code = PairingCode(SecretBytes(vector.pairingCode.bytes))
      if let request = try HostRequest.open(record, code) {
        #expect(request.hostKey.exposed() == vector.hostKey.bytes)
      } else {
        Issue.record("the code does not open the request")
      }
      for name in [".protectfs", ".protectfs/hosts"] {
        try? directory.descriptor.makeDirectory(PathName(name), mode: 0o700)
      }
      try directory.write(".protectfs/lock", vector.lock.bytes)
      try directory.write(".protectfs/hosts/\(vector.id.bytes.hexadecimal).locked", vector.locked.bytes)
      let locks = try HostLocks(of: keybag.storeID, key)
      let file = try KeybagFile(backing: directory.descriptor)
      let request = locks.request(beside: file)
      let lock = try #require(request)
      #expect(lock.bytes == vector.lock.bytes && lock.content.rawValue == vector.lockContent)
      #expect(
        locks.isAcknowledged(lock, by: vector.id.bytes, beside: file)
          && !locks.isAcknowledged(lock, by: nil, beside: file))
      var altered = vector.request.bytes
      altered[50] ^= 1
      #expect(try Self.isRefused(HostRequestRecord(parsing: altered), code))
      // The file, with a byte too few or too many, or another's.
      for bytes in [Array(vector.file.bytes.dropLast()), vector.file.bytes + [0], [0] + vector.file.bytes.dropFirst()] {
        try directory.write("own.host", bytes)
        #expect(throws: KeyManagementError.hostFileMalformed(path: directory.path + "/own.host")) {
          _ = try DeviceKey.load(for: keybag.record, file: PathName(directory.path + "/own.host"))
        }
      }
    }
  }
}
