import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// Where a store's effaceable secret is: `.protectfs/effaceable`, a small file that is overwritten in place and never
/// replaced, so that a secret that was overwritten is nowhere else as far as the file system goes.
///
/// It has two slots, of which one is in use except during a change of the keybag, and each slot has two copies in
/// blocks of their own: one unreadable sector must not be the end of the store.
struct EffaceableStorage: ~Copyable {
  static let name: PathName = "effaceable"
  private static let blockSize: UInt64 = 4096
  static let copies: UInt64 = 2
  private static let slots: UInt64 = 2

  private let directory: Descriptor

  /// The effaceable storage in a store's own directory.
  init(in directory: borrowing Descriptor) throws(Errno) {
    self.directory = try directory.open(".", [.readOnly, .directory])
  }

  private func open(_ mode: OpenFlags) throws(Errno) -> Descriptor {
    try directory.open(Self.name, mode.union([.noFollow, .nonBlocking]), mode: 0o600).asOnServer()
  }

  /// The secret that belongs to a keybag with that identifier.
  ///
  /// - Throws: `effaceableSecretMissing` when it was overwritten, or the file is lost.
  func secret(_ identifier: [UInt8], of storeID: StoreID) throws(KeyManagementError) -> EffaceableSecret {
    let file: Descriptor
    do throws(Errno) {
      file = try open(.readOnly)
    } catch {
      throw error == .noSuchFileOrDirectory ? .effaceableSecretMissing : .keybagUnreadable(error)
    }
    var failure = KeyManagementError.effaceableSecretMissing
    for place in 0..<Self.slots * Self.copies {
      if let secret = Self.secret(identifier, storeID, at: place, of: file, &failure) { return secret }
    }
    throw failure
  }

  /// The secret at a place, if it is the one. A copy that cannot be read matters only where the others are not it.
  private static func secret(
    _ identifier: [UInt8], _ storeID: StoreID, at place: UInt64, of file: borrowing Descriptor,
    _ failure: inout KeyManagementError
  ) -> EffaceableSecret? {
    var secret = EffaceableSecret(SecretBytes(count: EffaceableSecret.size))
    do throws(Errno) {
      try secret.read(from: file, at: place * blockSize)
    } catch {
      failure = .keybagUnreadable(error)
    }
    let found = try? secret.identifier(of: storeID)
    let isFound = found.map { isEqualInConstantTime($0, identifier) } ?? false
    return isFound ? .some(consume secret) : nil
  }

  /// In how many copies the secret with that identifier is there.
  func copies(of identifier: [UInt8], _ storeID: StoreID) throws(Errno) -> UInt64 {
    let file = try open(.readOnly)
    var failure = KeyManagementError.effaceableSecretMissing
    let places = (0..<Self.slots * Self.copies).filter {
      Self.secret(identifier, storeID, at: $0, of: file, &failure) != nil
    }
    return UInt64(places.count)
  }

  /// Writes a new secret into the slot that is not the one of the keybag in use, and makes it durable.
  func write(_ secret: borrowing EffaceableSecret, keeping identifier: [UInt8]?, of storeID: StoreID) throws(Errno) {
    let file = try open([.readWrite, .create])
    try directory.synchronize()
    try write(secret, slot: Self.freeSlot(keeping: identifier, storeID, file), file)
  }

  /// Writes both copies of the secret in use.
  func restoreCopies(
    _ secret: borrowing EffaceableSecret, _ identifier: [UInt8], of storeID: StoreID
  ) throws(Errno) {
    let file = try open(.readWrite)
    try write(secret, slot: try 1 - Self.freeSlot(keeping: identifier, storeID, file), file)
  }

  private func write(
    _ secret: borrowing EffaceableSecret, slot: UInt64, _ file: borrowing Descriptor
  ) throws(Errno) {
    for copy in 0..<Self.copies {
      try unsafe secret.secret.withBytes { (bytes) throws(Errno) in
        try unsafe file.write(bytes, at: (slot * Self.copies + copy) * Self.blockSize)
      }
    }
    try file.synchronize()
  }

  /// Overwrites every secret but the one with that identifier, and makes that durable. What an interrupted change
  /// has left in either slot goes too. If one cannot be overwritten, the others still are.
  ///
  /// Where nothing is left to overwrite, nothing is written, nor synchronised unless all secrets are to go.
  /// - Throws: `ENOENT` when that secret is not there, and what reading fails with: then nothing is overwritten.
  func efface(allBut identifier: [UInt8]?, of storeID: StoreID) throws(Errno) {
    do throws(Errno) {
      _ = try directory.status(of: Self.name)
    } catch {
      // A store without effaceable secrets.
      if error == .noSuchFileOrDirectory { return } else { throw error }
    }
    let file = try open(.readWrite)
    var places = Array(0..<Self.slots * Self.copies)
    if let identifier {
      guard let kept = try Self.slot(of: identifier, storeID, file) else { throw .noSuchFileOrDirectory }
      places.removeAll { $0 / Self.copies == kept }
    }
    let filled = places.filter { !Self.isBlank($0, of: file) }
    if identifier != nil {
      guard !filled.isEmpty else { return }
      // No power cut is to bring back the keybag that these belong to. An erasure goes on whatever comes back.
      try directory.synchronize()
    }
    var failure: Errno?
    for place in filled {
      do throws(Errno) { try Self.overwrite(place, with: 0, of: file) } catch { failure = failure ?? error }
    }
    do throws(Errno) {
      try file.synchronize()
    } catch {
      // The disk may have them still, though they read as zeros now: who effaces next is to overwrite them again.
      for place in places { try? Self.overwrite(place, with: 0xff, of: file) }
      failure = failure ?? error
    }
    if let failure { throw failure }
  }

  private static func overwrite(_ place: UInt64, with byte: UInt8, of file: borrowing Descriptor) throws(Errno) {
    let bytes = [UInt8](repeating: byte, count: EffaceableSecret.size)
    try unsafe bytes.withBytes { (bytes) throws(Errno) in try unsafe file.write(bytes, at: place * blockSize) }
  }

  /// The slot that has the secret with that identifier; `nil` when none has.
  ///
  /// - Throws: when a place that may have it cannot be read, and no other has it.
  private static func slot(
    of identifier: [UInt8], _ storeID: StoreID, _ file: borrowing Descriptor
  ) throws(Errno) -> UInt64? {
    var failure = KeyManagementError.effaceableSecretMissing
    let place = (0..<slots * copies).first { secret(identifier, storeID, at: $0, of: file, &failure) != nil }
    if let place { return place / copies }
    if case .keybagUnreadable(let error) = failure { throw error }
    return nil
  }

  /// The slot that a keybag with that identifier does not use.
  private static func freeSlot(
    keeping identifier: [UInt8]?, _ storeID: StoreID, _ file: borrowing Descriptor
  ) throws(Errno) -> UInt64 {
    guard let identifier, let used = try slot(of: identifier, storeID, file) else { return 0 }
    return 1 - used
  }

  private static func isBlank(_ place: UInt64, of file: borrowing Descriptor) -> Bool {
    var secret = EffaceableSecret(SecretBytes(count: EffaceableSecret.size))
    guard (try? secret.read(from: file, at: place * blockSize)) != nil else { return false }
    return unsafe secret.secret.withBytes { unsafe $0.allSatisfy { $0 == 0 } }
  }
}

extension EffaceableSecret {
  /// Reads a secret into memory that is wiped; what a file is too short for stays zeros.
  fileprivate mutating func read(from file: borrowing Descriptor, at offset: UInt64) throws(Errno) {
    _ = try unsafe secret.withMutableBytes { (bytes) throws(Errno) in try unsafe file.read(into: bytes, at: offset) }
  }
}
