import Cryptography
import DataProtection
import Glibc
import StoreFormat
import Synchronization
import SystemPackage

/// The class keys in memory, and what may be done with them now.
///
/// Asking is one atomic load. Keys are used under the lock of their class's slot only, so that once ``wipe(_:)`` returns
/// no key of that class is in use or in memory.
package final class LockController: Sendable {
  /// The key availability of each class, a byte a class, in the order of `ProtectionClass.allCases`.
  private let availability = Atomic<UInt64>(0)
  private let slots = ProtectionClass.allCases.map { _ in Slot() }

  /// Holds the key of class D, and the public key of class B: all that is known before the first unlock.
  package init(noneKey: consuming ClassKey, publicKey: [UInt8], publicKeyGeneration: UInt32) {
    install([HeldKey(noneKey)], for: .none)
    slot(of: .completeUnlessOpen).withLock {
      $0.publicKey = publicKey
      $0.publicKeyGeneration = publicKeyGeneration
    }
    for fileClass in ProtectionClass.allCases {
      setAvailability(ProtectionPolicy.keyAvailability(of: fileClass, in: .beforeFirstUnlock), of: fileClass)
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
    return Self.availabilities[Int(truncatingIfNeeded: word >> Self.shift(of: fileClass)) & 0x3]
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

  // MARK: Keys of files

  /// The file key that a record wraps.
  ///
  /// - Throws: `EACCES` when the class key is not in memory, `EKEYREVOKED` when the record's generation is none of the
  ///   keybag's, `EIO` when the key does not unwrap.
  package func fileKey(of record: FileRecord) throws(Errno) -> FileKey {
    try slot(of: record.fileClass).withLock { (slot) throws(Errno) in
      guard !slot.held.isEmpty else { throw .permissionDenied }
      guard let key = slot.held.first(where: { $0.generation == record.generation }) else {
        throw Errno(rawValue: EKEYREVOKED)
      }
      do throws(CryptographyError) {
        if record.fileClass == .completeUnlessOpen {
          return try FileKey(
            OnePassDiffieHellman.unwrap(record.wrappedKey, privateKey: key.secret, publicKey: slot.publicKey))
        }
        return try FileKey(KeyWrap.unwrap(record.wrappedKey, under: key.secret))
      } catch {
        throw .ioError
      }
    }
  }

  /// Wraps a file key for a class. Class B needs only its public key.
  ///
  /// - Throws: `EACCES` when the class key is not in memory.
  package func wrap(
    _ key: borrowing FileKey, for fileClass: ProtectionClass
  ) throws(Errno) -> (generation: UInt32, wrappedKey: [UInt8]) {
    try slot(of: fileClass).withLock { (slot) throws(Errno) in
      do throws(CryptographyError) {
        if fileClass == .completeUnlessOpen {
          return (slot.publicKeyGeneration, try OnePassDiffieHellman.wrap(key.secret, for: slot.publicKey))
        }
        if let current = slot.held.last {
          return (current.generation, try KeyWrap.wrap(key.secret, under: current.secret))
        }
      } catch {
        throw .ioError
      }
      throw .permissionDenied
    }
  }

  // MARK: Unlocking and wiping

  /// Takes the keys of a class that an unlock yields, in the order of their generations.
  package func install(_ keys: [HeldKey], for fileClass: ProtectionClass) {
    slot(of: fileClass).withLock { $0.held = keys }
  }

  /// Whether the class's secret key is in memory.
  package func holdsKey(of fileClass: ProtectionClass) -> Bool {
    slot(of: fileClass).withLock { !$0.held.isEmpty }
  }

  /// Wipes a class's secret keys. Uses that had begun have ended when this returns.
  package func wipe(_ fileClass: ProtectionClass) {
    slot(of: fileClass).withLock { $0.held = [] }
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

/// A class key in memory, wiped when the last reference to it goes.
package final class HeldKey: Sendable {
  package let generation: UInt32
  let secret: SecretBytes

  package init(_ key: consuming ClassKey) {
    generation = key.generation
    secret = key.takeSecret()
  }
}

/// The keys of one class, and the lock under which they are used.
private final class Slot: Sendable {
  struct Keys {
    /// In the order of generations; new files get the last.
    var held: [HeldKey] = []
    var publicKey: [UInt8] = []
    var publicKeyGeneration: UInt32 = 0
  }

  private let keys = Mutex(Keys())

  func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout Keys) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    try keys.withLock { (keys) throws(Failure) in try body(&keys) }
  }
}
