import Cryptography
import Foundation
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// A store in a temporary directory, written entry by entry according to the format, without a mount.
final class BuiltStore {
  static let passcode = Array("1234".utf8)
  /// scrypt at the lowest cost that a keybag may have.
  static let cost = ScryptParameters(logN: 16, r: 8, p: 1)

  let path: String
  let deviceKey: VolumeDeviceKey
  let volume: VolumeKeys
  private(set) var keybag: Keybag
  /// Opens the store like the passcode, without scrypt; `nil` if keybags may have different ones.
  private(set) var recoveryKey: [UInt8]?
  private let file: KeybagFile
  /// Wraps file keys for any class.
  let controller: LockController
  let root: Folder

  /// A directory in the store.
  struct Folder {
    /// Below the backing directory; empty for the root.
    let backingPath: String
    /// Below the mount; empty for the root.
    let plainPath: String
    let identifier: [UInt8]
  }

  /// An item in the store, with its place in both trees.
  struct Item {
    let backingPath, plainPath: String
  }

  /// - Parameter isAnother: whether it has keys of its own, not those that all other stores here start with.
  init(isAnother: Bool = false) throws {
    path = FileManager.default.temporaryDirectory.path + "/protectfs-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path + "/.protectfs", withIntermediateDirectories: true)
    let keys = try isAnother ? StoreBeginning() : StoreBeginning.ofAll.get()
    deviceKey = try VolumeDeviceKey(SecretBytes(keys.deviceKey))
    keybag = keys.keybag
    recoveryKey = keys.recoveryKey
    volume = try VolumeKeys(deviceKey, storeID: keybag.storeID)
    let backing = try Descriptor.open(PathName(path), [.readOnly, .directory])
    file = try KeybagFile(backing: backing)
    try keys.write(to: path)
    controller = LockController(
      keybag: keybag,
      noneKeys: try keybag.noneClassKeys(deviceKey: deviceKey, effaceable: file.effaceableSecret(of: keybag)))
    let opened = try file.open(keybag, with: .recoveryKey(SecretBytes(keys.recoveryKey)), deviceKey: deviceKey)
    for (fileClass, held) in try opened.heldKeys() { controller.install(held, for: fileClass) }
    root = Folder(backingPath: "", plainPath: "", identifier: try randomBytes(16))
    try makePlainDirectory("/" + LongTarget.directoryPath)
    try setRecord(directoryRecord(root.identifier), of: "")
  }

  deinit {
    // FileManager cannot reach paths that are longer than the limit.
    try? Process.run(URL(fileURLWithPath: "/bin/rm"), arguments: ["-rf", path]).waitUntilExit()
  }

  /// The secret that opens the keybag.
  private func secret() -> UnlockSecret {
    if let recoveryKey { return .recoveryKey(SecretBytes(recoveryKey)) }
    return .passcode(SecretBytes(Self.passcode))
  }

  /// Adds `times` protectors to the keybag, and leaves the second copy unchanged.
  func changeKeybag(times: Int) throws {
    let previous = try read("/.protectfs/keybag.previous")
    for _ in 0..<times {
      let change = try file.open(keybag, with: secret(), deviceKey: deviceKey)
        .changed(by: .addProtector(NewProtector(.keyFile(SecretBytes(randomCount: 32)), label: "one more")))
      try file.commit(change)
      keybag = change.keybag
    }
    try write(previous, to: "/.protectfs/keybag.previous")
  }

  /// Gives a class a new key and removes the old one. One file of the class is left under the old key.
  func rotateAway(_ fileClass: ProtectionClass, but place: String) throws {
    let begun = try file.open(keybag, with: secret(), deviceKey: deviceKey).changed(by: .beginRotation(fileClass))
    try file.commit(begun)
    keybag = begun.keybag
    let opened = try file.open(keybag, with: secret(), deviceKey: deviceKey)
    controller.adopt(keybag)
    for (fileClass, held) in try opened.heldKeys(of: ProtectionClass.allCases) {
      controller.install(held, for: fileClass)
    }
    for (other, content) in try contents() where other != place {
      guard let bytes = content.attributes[FileRecord.attributeName], let record = try? FileRecord(parsing: bytes),
        record.fileClass == fileClass
      else { continue }
      let (keyID, wrappedKey) = try controller.wrap(controller.fileKey(of: record), for: fileClass)
      try setRecord(
        tagged(
          FileRecord(
            fileClass: fileClass, isExplicit: record.isExplicit, classKeyID: keyID, wrappedKey: wrappedKey)
        ).bytes, of: other)
    }
    let change = try opened.changed(by: .finishRotation(fileClass, from: opened.keybag.keyIDs(of: fileClass)))
    try file.commit(change)
    keybag = change.keybag
  }

  /// New keys for all classes but D, as after a lost passcode. The passcode is the same.
  func reset() throws {
    let reset = try keybag.resetting(
      passcode: SecretBytes(Self.passcode), deviceKey: deviceKey, effaceable: .some(file.effaceableSecret(of: keybag)),
      cost: Self.cost)
    try file.commit(reset.change)
    recoveryKey = nil
    try use(reset.change.keybag)
  }

  /// Puts a keybag in place and continues with its keys.
  func use(_ keybag: Keybag) throws {
    try write(keybag.bytes, to: "/.protectfs/keybag")
    self.keybag = keybag
    controller.adopt(keybag)
    let opened = try file.open(keybag, with: secret(), deviceKey: deviceKey)
    for (fileClass, held) in try opened.heldKeys() { controller.install(held, for: fileClass) }
  }

  // MARK: Bytes, by paths below the backing directory

  func write(_ bytes: [UInt8], to place: String) throws {
    let file = try Descriptor.open(PathName(path + place), [.writeOnly, .create, .truncate], mode: 0o600)
    try file.write(bytes)
  }

  func read(_ place: String) throws -> [UInt8] {
    let file = try Descriptor.open(PathName(path + place), [.readOnly])
    return try file.readAll(limit: Int(file.status().size))
  }

  func remove(_ place: String) throws {
    try FileManager.default.removeItem(atPath: path + place)
  }

  func makePlainDirectory(_ place: String) throws {
    try FileManager.default.createDirectory(atPath: path + place, withIntermediateDirectories: false)
  }

  func setAttribute(_ name: String, to value: [UInt8], of place: String) throws {
    try PathName(path + place).setAttribute(PathName(name), to: value)
  }

  func setRecord(_ bytes: [UInt8], of place: String) throws {
    try setAttribute(FileRecord.attributeName, to: bytes, of: place)
  }

  // MARK: Records

  func directoryRecord(_ identifier: [UInt8]) throws -> [UInt8] {
    var record = DirectoryRecord(directoryClass: .standard, isExplicit: false, directoryID: identifier)
    record.tag = try volume.records.tag(DirectoryRecord.tagLabel, record.bytesBeforeTag)
    return record.bytes
  }

  func fileRecord(_ key: borrowing FileKey, _ fileClass: ProtectionClass) throws -> FileRecord {
    let (keyID, wrapped) = try controller.wrap(key, for: fileClass)
    return try tagged(
      FileRecord(fileClass: fileClass, isExplicit: false, classKeyID: keyID, wrappedKey: wrapped))
  }

  /// The record of a file with a pending rekey; `damage` changes the last byte of the wrapped old key.
  func pending(_ record: FileRecord, damage: UInt8 = 0) throws -> FileRecord {
    let new = try FileKey()
    var wrapped = try new.wrap(old: controller.fileKey(of: record))
    wrapped[wrapped.count - 1] ^= damage
    var changed = try fileRecord(new, record.fileClass)
    changed.pending = PendingRekey(wrappedOldKey: wrapped)
    return changed
  }

  func tagged(_ record: FileRecord) throws -> FileRecord {
    var record = record
    record.tag = try volume.records.tag(FileRecord.tagLabel, record.bytesBeforeTag)
    return record
  }

  // MARK: Entries

  /// The backing name of a plain name. Its sidecar is written if it needs one.
  func place(_ name: String, in folder: Folder, encryptedIn identifier: [UInt8]? = nil) throws -> Item {
    let sealed = try volume.names.encrypt(Array(name.utf8), associatedData: identifier ?? folder.identifier)
    let backing = try NameEncoding.backingName(encrypted: sealed, digest: sha256)
    if case .hashed(_, let sidecar) = backing {
      try write(sealed, to: folder.backingPath + "/" + String(decoding: sidecar, as: UTF8.self))
    }
    return Item(
      backingPath: folder.backingPath + "/" + String(decoding: backing.bytes, as: UTF8.self),
      plainPath: folder.plainPath + "/" + name)
  }

  /// Creates a file whose backing file has these bytes.
  @discardableResult
  func makeFile(
    _ name: String, in folder: Folder? = nil, _ bytes: [UInt8] = [UInt8](repeating: 7, count: 32),
    fileClass: ProtectionClass = .standard, encryptedIn identifier: [UInt8]? = nil
  ) throws -> Item {
    let item = try place(name, in: folder ?? root, encryptedIn: identifier)
    try write(bytes, to: item.backingPath)
    try setRecord(fileRecord(FileKey(), fileClass).bytes, of: item.backingPath)
    return item
  }

  func makeDirectory(_ name: String, in folder: Folder? = nil) throws -> Folder {
    let item = try place(name, in: folder ?? root)
    try makePlainDirectory(item.backingPath)
    let identifier = try randomBytes(16)
    try setRecord(directoryRecord(identifier), of: item.backingPath)
    return Folder(backingPath: item.backingPath, plainPath: item.plainPath, identifier: identifier)
  }

  @discardableResult
  func makeSymbolicLink(_ name: String, text: [UInt8]) throws -> Item {
    let item = try place(name, in: root)
    try FileManager.default.createSymbolicLink(
      atPath: path + item.backingPath, withDestinationPath: String(decoding: text, as: UTF8.self))
    return item
  }

  func linkText(_ target: String) throws -> [UInt8] {
    NameEncoding.encode(try volume.symbolicLinks.encrypt(Array(target.utf8), associatedData: nil))
  }

  /// A long symlink file, and the text of a link that names it.
  func makeTargetFile(_ target: String) throws -> (place: String, text: [UInt8]) {
    let long = LongTarget(token: try randomBytes(LongTarget.tokenCount), count: target.utf8.count)
    let place = "/\(LongTarget.directoryPath)/" + String(decoding: long.fileName, as: UTF8.self)
    try write(try volume.symbolicLinks.encrypt(Array(target.utf8), associatedData: nil), to: place)
    return (place, long.text)
  }

  /// The backing name and value of an attribute, with the value encrypted by `cipher`.
  func attribute(
    _ name: String, cipher: NameCipher, associatedData: [UInt8] = []
  ) throws -> (name: String, value: [UInt8]) {
    let plain = Array(name.utf8)
    return (
      String(decoding: try volume.backingAttributeName(plain), as: UTF8.self),
      AttributeEncoding.value(
        encryptedName: try volume.attributeNames.encrypt(plain, associatedData: nil),
        encryptedValue: try cipher.encrypt(Array("value".utf8), associatedData: associatedData + plain))
    )
  }

  /// One of everything that a store has.
  func fill() throws {
    for fileClass in ProtectionClass.allCases { try makeFile("class \(fileClass.letter)", fileClass: fileClass) }
    try makeFile("empty", [])
    try makeFile(String(repeating: "long", count: 60))
    let folder = try makeDirectory("folder")
    let inner = try makeDirectory(String(repeating: "deep", count: 50), in: folder)
    try makeFile("inner", in: inner)
    try makeFile(String(repeating: "é", count: 100), in: inner)
    try makeSymbolicLink("link", text: linkText("folder/../class A"))
    try makeSymbolicLink("long link", text: makeTargetFile(String(repeating: "far/", count: 1000)).text)
    let fifo = try place("fifo", in: root)
    try Descriptor.open(PathName(path), [.readOnly, .directory])
      .makeNode(PathName(String(fifo.backingPath.dropFirst())), mode: 0o010600, device: 0)
    let key = try FileKey()
    let item = try place("attributes", in: folder)
    try write([], to: item.backingPath)
    try setRecord(fileRecord(key, .complete).bytes, of: item.backingPath)
    let ofFile = try attribute("user.of.file", cipher: key.attributeCipher())
    try setAttribute(ofFile.name, to: ofFile.value, of: item.backingPath)
    let ofFolder = try attribute(
      "user.of.folder", cipher: volume.directoryAttributes, associatedData: folder.identifier)
    try setAttribute(ofFolder.name, to: ofFolder.value, of: folder.backingPath)
  }
}
