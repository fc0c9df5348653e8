import Cryptography
import ProtectfsPolicy
import StoreFormat

/// One key of a protection class; of class B, its private key.
package struct ClassKey: ~Copyable, Sendable {
  /// The length of a class key, in bytes.
  package static let size = 32

  /// Which key it is; records of files name it.
  package let id: ClassKeyID
  /// The key, which wraps the keys of files.
  package let secret: SecretBytes

  /// A key and its identifier.
  package init(id: ClassKeyID, secret: consuming SecretBytes) {
    self.id = id
    self.secret = secret
  }

  /// The key alone.
  package consuming func takeSecret() -> SecretBytes { secret }
}

/// The class keys that an unlock yields: those of the classes A, B, C and CX.
///
/// Each is taken once; what is not taken is wiped with this value.
package struct ClassKeys: ~Copyable, Sendable {
  private var keys: [ProtectionClass: [Held]] = [:]

  /// None.
  package init() {}

  /// Adds a key; those of a class in their order in the keybag, the current one last.
  mutating func add(_ key: consuming ClassKey, of fileClass: ProtectionClass) {
    keys[fileClass, default: []].append(Held(key))
  }

  /// Takes the keys of a class out and makes of each what `use` returns, in their order in the keybag, the current one
  /// last.
  package mutating func take<Result>(_ fileClass: ProtectionClass, _ use: (consuming ClassKey) -> Result) -> [Result] {
    var results: [Result] = []
    for held in keys.removeValue(forKey: fileClass) ?? [] {
      if let key = held.take() { results.append(use(key)) }
    }
    return results
  }

  /// Carries a key that cannot be copied in an array. There is one owner, the dictionary above.
  private final class Held: @unchecked Sendable {
    private var key: ClassKey?

    init(_ key: consuming ClassKey) {
      self.key = consume key
    }

    func take() -> ClassKey? { key.take() }
  }
}
