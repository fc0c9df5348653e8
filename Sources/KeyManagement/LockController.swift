import Cryptography
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import Synchronization
import SystemPackage

/// The class keys in memory, and what may be done with them now.
///
/// Asking is one atomic load. Keys are used under the lock of their class's slot only, so that once ``wipe(_:)``
/// returns no key of that class is in use or in memory.
package final class LockController: Sendable {
  /// The key availability of each class, a byte a class, in the order of `ProtectionClass.allCases`.
  private let availability = Atomic<UInt64>(0)
  private let slots = ProtectionClass.allCases.map { _ in Slot() }
  /// The place of the state in `LockState.allCases`.
  private let stateNumber = Atomic(0)
  /// When all classes go, in the time of ``MonotonicClock/nanosecondsWithSuspension``; 0: never.
  private let end = Atomic<Int64>(0)

  /// Holds the keys of class D, and what a keybag says without an unlock: all that is known before the first one.
  package init(keybag: Keybag, noneKeys: [HeldKey]) {
    install(noneKeys, for: .none)
    for fileClass in ProtectionClass.allCases {
      setAvailability(ProtectionPolicy.keyAvailability(of: fileClass, in: .beforeFirstUnlock), of: fileClass)
    }
    adopt(keybag)
  }

  /// Takes over which class keys there are, after the keybag was changed. Keys in memory that are none any more go, and
  /// others come in their place where they are given.
  package func adopt(_ keybag: Keybag, with keys: [ProtectionClass: [HeldKey]] = [:]) {
    let retired = Set(keybag.record.formerKeys.map(\.id))
    for fileClass in ProtectionClass.allCases {
      let ids = keybag.keyIDs(of: fileClass)
      slot(of: fileClass).write { slot in
        slot.ids = ids
        slot.retired = retired
        slot.held = (keys[fileClass] ?? slot.held).filter { ids.contains($0.id) }
        if fileClass.hasKeyPair { slot.publicKeys = keybag.publicKeys }
      }
    }
  }

  // MARK: Policy

  /// What may be done with a class now.
  package func access(for operation: ProtectionPolicy.Operation, on fileClass: ProtectionClass)
    -> ProtectionPolicy.Access
  {
    ProtectionPolicy.access(for: operation, with: availability(of: fileClass))
  }

  /// Whether an operation that no open handle stands for is allowed now.
  package func allows(_ operation: ProtectionPolicy.Operation, on fileClass: ProtectionClass) -> Bool {
    if case .allowed = access(for: operation, on: fileClass) { true } else { false }
  }

  /// How much of a class's key is in memory.
  package func availability(of fileClass: ProtectionClass) -> KeyAvailability {
    let word = availability.load(ordering: .acquiring)
    let value = Self.availabilities[Int(truncatingIfNeeded: word >> Self.shift(of: fileClass)) & 0x3]
    return value == .available && isPastEnd && !fileClass.isUnlockedByDevice ? .revoking : value
  }

  /// When the classes that are available count as being locked, if nothing is done before: in the time of
  /// ``MonotonicClock/nanosecondsWithSuspension``, so that a machine that slept through it answers no request first.
  package var endOfAvailability: Int64? {
    get {
      let end = end.load(ordering: .relaxed)
      return end == 0 ? nil : end
    }
    set { end.store(newValue ?? 0, ordering: .relaxed) }
  }

  private var isPastEnd: Bool {
    let end = end.load(ordering: .relaxed)
    return end != 0 && end <= MonotonicClock.nanosecondsWithSuspension
  }

  /// Says how much of a class's key may be used from now on.
  package func setAvailability(_ value: KeyAvailability, of fileClass: ProtectionClass) {
    let bits = UInt64(Self.availabilities.firstIndex(of: value)!) << Self.shift(of: fileClass)
    let mask = UInt64(0x3) << Self.shift(of: fileClass)
    var word = availability.load(ordering: .relaxed)
    while true {
      let (done, current) = availability.compareExchange(
        expected: word, desired: (word & ~mask) | bits, ordering: .acquiringAndReleasing)
      if done { return }
      word = current
    }
  }

  /// The state of the device, for those who show it: `beforeFirstUnlock` until it is set. It follows the availability
  /// of keys, which decides: it is `locked` when the keys have gone, and `unlocked` when they are there.
  package var lockState: LockState {
    get { LockState.allCases[stateNumber.load(ordering: .acquiring)] }
    set { stateNumber.store(LockState.allCases.firstIndex(of: newValue)!, ordering: .releasing) }
  }

  // MARK: Keys of files

  /// Finds out that a record's class key still exists, whether it is in memory or not.
  ///
  /// - Throws: `EKEYREVOKED` when it was erased, reset, or rotated away; `ENOKEY` when the keybag does not know it:
  ///   another one has it.
  package func requireKey(of record: FileRecord) throws(Errno) {
    try slot(of: record.fileClass).read { (slot) throws(Errno) in try slot.requireKey(of: record) }
  }

  /// Whether a class has a key, in memory or not.
  package func knowsKey(_ id: ClassKeyID, of fileClass: ProtectionClass) -> Bool {
    slot(of: fileClass).read { $0.ids.contains(id) }
  }

  /// Whether a record's class key is the one that new records use.
  package func isCurrent(_ record: FileRecord) -> Bool {
    slot(of: record.fileClass).read { $0.ids.last == record.classKeyID }
  }

  /// Whether the keybag remembers a record's class key as ended: nothing opens its file any more.
  package func hasEnded(_ record: FileRecord) -> Bool {
    do throws(Errno) { try requireKey(of: record) } catch { return error == .keyRevoked }
    return false
  }

  /// The file key that a record wraps.
  ///
  /// - Throws: `EKEYREVOKED` and `ENOKEY` when the record's class key is none of the keybag's, as ``requireKey(of:)``
  ///   does, `EACCES` when the class key is not in memory, `EIO` when the key does not unwrap, `ENOMEM` when libcrypto
  ///   fails.
  package func fileKey(of record: FileRecord) throws(Errno) -> FileKey {
    try slot(of: record.fileClass).read { (slot) throws(Errno) in
      try slot.requireKey(of: record)
      guard let key = slot.held.first(where: { $0.id == record.classKeyID }) else { throw .permissionDenied }
      do throws(CryptographyError) {
        if record.fileClass.hasKeyPair {
          return try FileKey(
            OnePassDiffieHellman.unwrap(
              record.wrappedKey, privateKey: key.secret, publicKey: slot.publicKeys[record.classKeyID] ?? []))
        }
        return try FileKey(KeyWrap.unwrap(record.wrappedKey, under: key.secret))
      } catch {
        throw Errno(error)
      }
    }
  }

  /// Wraps a file key for a class, under its current key. Class B needs only its public key.
  ///
  /// - Throws: `EACCES` when the class key is not in memory, `EKEYREVOKED` when the class has none any more, `ENOMEM`
  ///   when libcrypto fails.
  package func wrap(
    _ key: borrowing FileKey, for fileClass: ProtectionClass
  ) throws(Errno) -> (keyID: ClassKeyID, wrappedKey: [UInt8]) {
    try slot(of: fileClass).read { (slot) throws(Errno) in
      guard let id = slot.ids.last else { throw .keyRevoked }
      do throws(CryptographyError) {
        if fileClass.hasKeyPair {
          return (id, try OnePassDiffieHellman.wrap(key.secret, for: slot.publicKeys[id] ?? []))
        }
        if let current = slot.held.first(where: { $0.id == id }) {
          return (id, try KeyWrap.wrap(key.secret, under: current.secret))
        }
      } catch {
        throw Errno(error)
      }
      throw .permissionDenied
    }
  }

  // MARK: Unlocking and wiping

  /// Takes the keys of a class that an unlock or a change of keys yields. Others stay until the keybag ends them
  /// (``adopt(_:)``): files may be under them until then.
  package func install(_ keys: [HeldKey], for fileClass: ProtectionClass) {
    let ids = Set(keys.map(\.id))
    slot(of: fileClass).write { slot in
      slot.held.removeAll { ids.contains($0.id) || !slot.ids.contains($0.id) }
      slot.held += keys
    }
  }

  /// Whether the class's secret key is in memory.
  package func holdsKey(of fileClass: ProtectionClass) -> Bool {
    slot(of: fileClass).read { !$0.held.isEmpty }
  }

  /// On a host, what other keys of a class are unwrapped with, where one is in memory.
  func successors(of fileClass: ProtectionClass) -> HostClassKey? {
    slot(of: fileClass).read { $0.held.lazy.compactMap(\.successors).first }
  }

  /// Wipes a class's secret keys. Uses that had begun have ended when this returns.
  package func wipe(_ fileClass: ProtectionClass) {
    slot(of: fileClass).write { $0.held = [] }
  }

  private func slot(of fileClass: ProtectionClass) -> Slot { slots[Self.index(of: fileClass)] }

  private static let availabilities = KeyAvailability.allCases

  private static func index(of fileClass: ProtectionClass) -> Int {
    switch fileClass {
    case .complete: 0
    case .completeUnlessOpen: 1
    case .completeUntilFirstUserAuthentication: 2
    case .none: 3
    case .completeWhenUserInactive: 4
    }
  }

  private static func shift(of fileClass: ProtectionClass) -> UInt64 { UInt64(index(of: fileClass)) * 8 }
}

/// A class key in memory, which wraps the keys of files; of class B, its private key. It is wiped when the last
/// reference to it goes.
package final class HeldKey: Sendable {
  /// The length of a class key, in bytes.
  package static let size = 32

  /// Which key it is; records of files name it.
  package let id: ClassKeyID
  let secret: SecretBytes
  /// On a host, what other keys of the class are unwrapped with that the keybag comes to have.
  let successors: HostClassKey?

  package init(_ id: ClassKeyID, _ secret: consuming SecretBytes, successors: HostClassKey? = nil) {
    self.id = id
    self.secret = secret
    self.successors = successors
  }
}

/// The keys of one class, and the lock under which they are used, by several at once; a change waits for all of them.
private final class Slot: @unchecked Sendable {
  struct Keys {
    var held: [HeldKey] = []
    /// Those that the keybag has, in memory or not; new files get the last.
    var ids: [ClassKeyID] = []
    /// Those that the keybag remembers as retired, of all classes.
    var retired: Set<ClassKeyID> = []
    /// Of class B.
    var publicKeys: [ClassKeyID: [UInt8]] = [:]

    func requireKey(of record: FileRecord) throws(Errno) {
      guard !ids.contains(record.classKeyID) else { return }
      throw retired.contains(record.classKeyID) ? .keyRevoked : .noKey
    }
  }

  private let lock = ReaderWriterLock(.classSlot)
  private var keys = Keys()

  func read<Result: ~Copyable, Failure: Error>(_ body: (Keys) throws(Failure) -> Result) throws(Failure) -> Result {
    try lock.read { () throws(Failure) in try body(keys) }
  }

  func write(_ body: (inout Keys) -> Void) {
    lock.write { body(&keys) }
  }
}
