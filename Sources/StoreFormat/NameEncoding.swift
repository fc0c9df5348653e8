/// Names as the backing directory has them: base64url of the sealed name, or, where that would not fit, a digest of it
/// and a sidecar file with the sealed name.
///
/// Sealed is AES-256-SIV of the name, which adds ``overhead`` bytes. A name of 175 bytes just fits: 4/3 · 191 = 255.
package enum NameEncoding {
  /// The directory in the root of the backing directory that is the store's own.
  package static let storeDirectory = ".protectfs"
  /// The longest name a file can have, in bytes (`NAME_MAX`).
  package static let longestName = 255
  /// The longest name that needs no sidecar, in bytes.
  package static let longestShortName = 175
  /// By how much sealing makes a name longer, in bytes.
  package static let overhead = 16

  private static let mark = UInt8(ascii: "~")
  private static let suffix = Array(".name".utf8)
  private static let digestCharacters = 43

  /// How a name is stored.
  package struct BackingName: Sendable, Equatable {
    /// The name in the backing directory.
    package let bytes: [UInt8]
    /// The name of the file in the same directory whose content is the sealed name; `nil` for short names.
    package let sidecar: [UInt8]?
  }

  /// What a name in a backing directory stands for.
  package enum Kind: Sendable, Equatable {
    /// A short name, sealed.
    case short(sealed: [UInt8])
    /// A long name, whose sealed form is the content of the sidecar.
    case long(sidecar: [UInt8])
    /// A sidecar, which is not shown.
    case sidecar
    /// Nothing of ours: not shown.
    case foreign
  }

  /// The backing name of a sealed name. `digest` is SHA-256, and called for long names only.
  package static func backingName<Failure: Error>(
    sealed: [UInt8], digest: ([UInt8]) throws(Failure) -> [UInt8]
  ) throws(Failure) -> BackingName {
    if sealed.count <= longestShortName + overhead {
      return BackingName(bytes: Base64URL.encode(sealed), sidecar: nil)
    }
    let bytes = [mark] + Base64URL.encode(try digest(sealed))
    return BackingName(bytes: bytes, sidecar: bytes + suffix)
  }

  /// What a name found in a backing directory stands for.
  package static func kind(of name: some RandomAccessCollection<UInt8>) -> Kind {
    guard name.first == mark else {
      guard let sealed = Base64URL.decode(name), sealed.count > overhead, sealed.count <= longestShortName + overhead
      else { return .foreign }
      return .short(sealed: sealed)
    }
    let digest = name.dropFirst().prefix(digestCharacters)
    let rest = name.dropFirst(1 + digestCharacters)
    guard digest.count == digestCharacters, Base64URL.decode(digest) != nil else { return .foreign }
    if rest.isEmpty { return .long(sidecar: Array(name) + suffix) }
    return rest.elementsEqual(suffix) ? .sidecar : .foreign
  }

  /// Whether bytes read from a sidecar can be the sealed form of the long name it belongs to.
  package static func isSidecar<Failure: Error>(
    _ sealed: [UInt8], of name: some Collection<UInt8>, digest: ([UInt8]) throws(Failure) -> [UInt8]
  ) throws(Failure) -> Bool {
    guard sealed.count > longestShortName + overhead, sealed.count <= longestName + overhead else { return false }
    return try backingName(sealed: sealed, digest: digest).bytes.elementsEqual(name)
  }
}
