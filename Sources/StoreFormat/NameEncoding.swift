/// The encoding of names in the backing directory: base64url of the encrypted name or, if that would be too long, a
/// digest of it and a sidecar file that contains the encrypted name.
///
/// A name is encrypted with AES-256-SIV, which adds ``overhead`` bytes. A name of 175 bytes just fits: 4/3 · 191 = 255.
package enum NameEncoding {
  /// The store's own directory, in the root of the backing directory.
  package static let storeDirectory = ".protectfs"
  /// The file in it whose lock is the claim to write the store.
  package static let writerFile = "writer"
  /// The maximum length of a name, in bytes (`NAME_MAX`).
  package static let longestName = 255
  /// The maximum length of a name that needs no sidecar, in bytes.
  package static let longestDirectName = 175
  /// By how many bytes encryption makes a name longer.
  package static let overhead = 16

  /// The suffix that a sidecar's name adds to that of its file.
  package static let sidecarSuffix = Array(".name".utf8)

  private static let mark = UInt8(ascii: "~")
  private static let digestCharacters = 43

  /// How a name is stored.
  package enum BackingName: Sendable, Equatable {
    /// The encrypted name itself.
    case direct([UInt8])
    /// A digest of the encrypted name. The encrypted name is the content of the sidecar, a file in the same directory.
    case hashed([UInt8], sidecar: [UInt8])

    /// The name in the backing directory.
    package var bytes: [UInt8] {
      switch self {
      case .direct(let bytes), .hashed(let bytes, sidecar: _): bytes
      }
    }
  }

  /// The meaning of a name found in a backing directory.
  package enum Kind: Sendable, Equatable {
    /// An encrypted name.
    case direct(encrypted: [UInt8])
    /// A name whose encrypted form is the content of the sidecar.
    case hashed(sidecar: [UInt8])
    /// A sidecar, which is not shown.
    case sidecar
    /// Not a name of a store.
    case undecodable
  }

  /// The backing name of an encrypted name. `digest` is SHA-256, and called for long names only.
  package static func backingName<Failure: Error>(
    encrypted: [UInt8], digest: ([UInt8]) throws(Failure) -> [UInt8]
  ) throws(Failure) -> BackingName {
    guard encrypted.count > longestDirectName + overhead else { return .direct(Base64URL.encode(encrypted)) }
    let bytes = [mark] + Base64URL.encode(try digest(encrypted))
    return .hashed(bytes, sidecar: bytes + sidecarSuffix)
  }

  /// The meaning of a name found in a backing directory.
  package static func parse(_ name: some RandomAccessCollection<UInt8>) -> Kind {
    guard name.first == mark else {
      guard let encrypted = Base64URL.decode(name), encrypted.count > overhead,
        encrypted.count <= longestDirectName + overhead
      else { return .undecodable }
      return .direct(encrypted: encrypted)
    }
    let digest = name.dropFirst().prefix(digestCharacters)
    let rest = name.dropFirst(1 + digestCharacters)
    guard digest.count == digestCharacters, Base64URL.decode(digest) != nil else { return .undecodable }
    if rest.isEmpty { return .hashed(sidecar: Array(name) + sidecarSuffix) }
    return rest.elementsEqual(sidecarSuffix) ? .sidecar : .undecodable
  }

  /// Whether the content of a sidecar is an encrypted name that belongs to the backing name `name`. This refuses a
  /// sidecar that was exchanged for another; one that is not authentic is refused when it is decrypted.
  package static func isSidecar<Failure: Error>(
    _ encrypted: [UInt8], of name: some Collection<UInt8>, digest: ([UInt8]) throws(Failure) -> [UInt8]
  ) throws(Failure) -> Bool {
    guard encrypted.count > longestDirectName + overhead, encrypted.count <= longestName + overhead else {
      return false
    }
    return try backingName(encrypted: encrypted, digest: digest).bytes.elementsEqual(name)
  }
}
