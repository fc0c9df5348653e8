/// Names as the backing directory has them: base64url of the sealed name, or, where that would not fit, a digest of it
/// and a sidecar file with the sealed name.
///
/// Sealed is AES-256-SIV of the name, which adds ``overhead`` bytes. A name of 175 bytes just fits: 4/3 · 191 = 255.
package enum NameEncoding {
  /// The directory in the root of the backing directory that is the store's own.
  package static let storeDirectory = ".protectfs"
  /// The file in it whose lock is the claim to write the store.
  package static let writerFile = "writer"
  /// The longest name a file can have, in bytes (`NAME_MAX`).
  package static let longestName = 255
  /// The longest name that needs no sidecar, in bytes.
  package static let longestDirectName = 175
  /// By how much sealing makes a name longer, in bytes.
  package static let overhead = 16

  /// What a sidecar's name adds to that of its file.
  package static let sidecarSuffix = Array(".name".utf8)

  private static let mark = UInt8(ascii: "~")
  private static let digestCharacters = 43

  /// How a name is stored.
  package enum BackingName: Sendable, Equatable {
    /// Under its sealed form.
    case direct([UInt8])
    /// Under a digest of its sealed form, which is the content of the sidecar, a file in the same directory.
    case hashed([UInt8], sidecar: [UInt8])

    /// The name in the backing directory.
    package var bytes: [UInt8] {
      switch self {
      case .direct(let bytes), .hashed(let bytes, sidecar: _): bytes
      }
    }
  }

  /// What a name found in a backing directory stands for.
  package enum Kind: Sendable, Equatable {
    /// A name in its sealed form.
    case direct(sealed: [UInt8])
    /// A name whose sealed form is the content of the sidecar.
    case hashed(sidecar: [UInt8])
    /// A sidecar, which is not shown.
    case sidecar
    /// No name of a store.
    case undecodable
  }

  /// The backing name of a sealed name. `digest` is SHA-256, and called for long names only.
  package static func backingName<Failure: Error>(
    sealed: [UInt8], digest: ([UInt8]) throws(Failure) -> [UInt8]
  ) throws(Failure) -> BackingName {
    guard sealed.count > longestDirectName + overhead else { return .direct(Base64URL.encode(sealed)) }
    let bytes = [mark] + Base64URL.encode(try digest(sealed))
    return .hashed(bytes, sidecar: bytes + sidecarSuffix)
  }

  /// What a name found in a backing directory stands for.
  package static func parse(_ name: some RandomAccessCollection<UInt8>) -> Kind {
    guard name.first == mark else {
      guard let sealed = Base64URL.decode(name), sealed.count > overhead, sealed.count <= longestDirectName + overhead
      else { return .undecodable }
      return .direct(sealed: sealed)
    }
    let digest = name.dropFirst().prefix(digestCharacters)
    let rest = name.dropFirst(1 + digestCharacters)
    guard digest.count == digestCharacters, Base64URL.decode(digest) != nil else { return .undecodable }
    if rest.isEmpty { return .hashed(sidecar: Array(name) + sidecarSuffix) }
    return rest.elementsEqual(sidecarSuffix) ? .sidecar : .undecodable
  }

  /// Whether the content of a sidecar is a sealed name that is stored under `name`. One that was exchanged for
  /// another's is refused here; one that nobody sealed, when it is opened.
  package static func isSidecar<Failure: Error>(
    _ sealed: [UInt8], of name: some Collection<UInt8>, digest: ([UInt8]) throws(Failure) -> [UInt8]
  ) throws(Failure) -> Bool {
    guard sealed.count > longestDirectName + overhead, sealed.count <= longestName + overhead else { return false }
    return try backingName(sealed: sealed, digest: digest).bytes.elementsEqual(name)
  }
}
