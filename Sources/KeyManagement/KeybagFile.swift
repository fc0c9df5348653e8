import ProtectfsIO
import StoreFormat
import SystemPackage

/// Where a store's keybag is: `.protectfs/keybag` in the backing directory, the one before it in `keybag.previous`.
package struct KeybagFile: ~Copyable, Sendable {
  static let name: PathName = "keybag"
  static let previousName: PathName = "keybag.previous"
  /// Where the second copy is while it takes the keybag's place and names cannot be exchanged.
  static let previousAsideName: PathName = "keybag.previous.new"

  /// The store's own directory.
  let directory: Descriptor
  /// How long a writer waits for another one.
  var patience = Self.patience
  /// Whether the store is erased after as many wrong passcodes as its keybag says.
  package var erasesItself: Bool
  /// Where wrong passcodes are counted.
  let attemptsName: PathName

  /// The keybag of the store in a backing directory.
  ///
  /// - Parameter host: what this machine has as a host of the store. A host counts wrong passcodes by itself, and they
  ///   erase nothing.
  /// - Throws: `keybagMissing` when the directory has no store.
  package init(backing: borrowing Descriptor, host: HostKey? = nil) throws(KeyManagementError) {
    erasesItself = host == nil
    attemptsName = host.map { Self.attemptsName(ofHost: $0.record.id) } ?? "attempts"
    do throws(Errno) {
      directory = try backing.open(PathName(NameEncoding.storeDirectory), [.readOnly, .directory, .noFollow])
    } catch {
      throw error == .noSuchFileOrDirectory ? .keybagMissing : .keybagUnreadable(error)
    }
  }

  static func attemptsName(ofHost id: [UInt8]) -> PathName { PathName("attempts.\(id.hexadecimal)") }

  /// Makes the store's own directory, for a new store. One without a keybag may be there already.
  package static func makeDirectory(in backing: borrowing Descriptor) throws(KeyManagementError) {
    do throws(Errno) {
      try backing.makeDirectory(PathName(NameEncoding.storeDirectory), mode: 0o700)
    } catch {
      guard error == .fileExists else { throw .keybagUnwritable(error) }
    }
  }

  /// The bytes of the keybag.
  package func read() throws(KeyManagementError) -> [UInt8] { try read(Self.name) }

  /// The bytes of the keybag before the last change.
  package func readPrevious() throws(KeyManagementError) -> [UInt8] { try read(Self.previousName) }

  /// The second copy, where it is authentic.
  ///
  /// - Throws: `keybagUnreadable`, `unsupportedStore`: it may be whole, and have keys that are nowhere else.
  func secondCopy(
    of storeID: StoreID, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> Keybag? {
    try copy(Self.previousName, of: storeID, deviceKey)
  }

  /// The keybag under a name, where it is authentic; `nil` where there is none, or it is damaged or another store's.
  ///
  /// - Throws: `keybagUnreadable`, `unsupportedStore`.
  func copy(
    _ name: PathName, of storeID: StoreID, _ deviceKey: borrowing VolumeDeviceKey
  ) throws(KeyManagementError) -> Keybag? {
    try authentic(of: storeID, deviceKey) { () throws(KeyManagementError) in try read(name) }
  }

  /// The same of the bytes that `body` reads.
  func authentic(
    of storeID: StoreID, _ deviceKey: borrowing VolumeDeviceKey, _ body: () throws(KeyManagementError) -> [UInt8]
  ) throws(KeyManagementError) -> Keybag? {
    do throws(KeyManagementError) {
      let keybag = try Keybag(parsing: body(), deviceKey: deviceKey)
      return keybag.storeID == storeID ? keybag : nil
    } catch {
      switch error {
      case .keybagMissing, .keybagMalformed, .keybagAltered, .foreignDeviceKey: return nil
      default: throw error
      }
    }
  }

  /// The effaceable secret that belongs to a keybag.
  ///
  /// - Throws: `effaceableSecretMissing`.
  package func effaceableSecret(of keybag: Keybag) throws(KeyManagementError) -> EffaceableSecret {
    guard let identifier = keybag.record.effaceableIdentifier else { return .absent() }
    return try effaceable().secret(identifier, of: keybag.storeID)
  }

  /// Whether a keybag is not erased, and the secret is there that belongs to it.
  package func opens(_ keybag: Keybag) -> Bool { keybag.erasureTime == nil && hasSecret(of: keybag.record) == true }

  /// The same, or that cannot be told: a failing disk does not prove that the secret is gone.
  package func mayOpen(_ keybag: Keybag) -> Bool { keybag.erasureTime == nil && hasSecret(of: keybag.record) != false }

  /// Whether the effaceable secret of a keybag is there, or it needs none; `nil` where that cannot be told.
  package func hasSecret(of record: KeybagRecord) -> Bool? {
    guard let identifier = record.effaceableIdentifier else { return true }
    do throws(KeyManagementError) {
      _ = try effaceable().secret(identifier, of: record.storeID)
      return true
    } catch .effaceableSecretMissing {
      return false
    } catch {
      return nil
    }
  }

  /// Whether the effaceable secret of a keybag is there in both of its copies.
  package func hasBothEffaceableCopies(of keybag: Keybag) throws(KeyManagementError) -> Bool {
    guard let identifier = keybag.record.effaceableIdentifier else { return true }
    let storage = try effaceable()
    do throws(Errno) {
      return try storage.copies(of: identifier, keybag.storeID) == EffaceableStorage.copies
    } catch { throw .keybagUnreadable(error) }
  }

  /// Writes both copies of the effaceable secret of a keybag from the one that is left.
  package func restoreEffaceableCopies(of keybag: Keybag) throws(Errno) {
    guard let identifier = keybag.record.effaceableIdentifier else { return }
    guard let storage = try? effaceable(), let secret = try? effaceableSecret(of: keybag) else { throw .ioError }
    try storage.restoreCopies(secret, identifier, of: keybag.storeID)
  }

  func read(_ name: PathName, limit: Int = KeybagRecord.longest + 1) throws(KeyManagementError) -> [UInt8] {
    do throws(Errno) {
      let file = try directory.open(name, [.readOnly, .noFollow, .nonBlocking])
      guard try file.status().type == .regular else { throw Errno.invalidArgument }
      return try file.readAll(limit: limit)
    } catch {
      throw error == .noSuchFileOrDirectory ? .keybagMissing : .keybagUnreadable(error)
    }
  }

  func effaceable() throws(KeyManagementError) -> EffaceableStorage {
    do throws(Errno) { return try EffaceableStorage(in: directory) } catch { throw .keybagUnreadable(error) }
  }
}
