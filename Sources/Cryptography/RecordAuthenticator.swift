import CLibcrypto

/// HMAC-SHA256 with one key (RFC 2104), truncated: the tags of records, and the hashes of attribute names.
///
/// Calls may come from any thread, and allocate only their result.
package final class RecordAuthenticator: @unchecked Sendable {
  /// The length of a tag, in bytes.
  package static let tagSize = 16
  /// The length of a MAC that is not truncated, in bytes.
  package static let fullSize = 32

  private let key: SecretBytes
  private let pool = ContextPool<MACContext>()

  /// An authenticator with a key of 32 bytes.
  package init(key: consuming SecretBytes) throws(CryptographyError) {
    guard key.count == 32 else { throw .invalidLength("a MAC key") }
    self.key = key
  }

  /// The tag of `label ‖ bytes`. The label separates the uses of one key. If a key has several, each label ends with a
  /// NUL, so that none is a prefix of another.
  package func tag(
    _ label: StaticString, _ bytes: [UInt8], size: Int = tagSize
  ) throws(CryptographyError) -> [UInt8] {
    var tag = try code(label, bytes)
    tag.removeSubrange(size...)
    return tag
  }

  /// Whether `tag` is the tag of `label ‖ bytes` with that size, in constant time.
  package func verify(
    _ tag: [UInt8], _ label: StaticString, _ bytes: [UInt8], size: Int = tagSize
  ) throws(CryptographyError) -> Bool {
    isEqualInConstantTime(tag, try self.tag(label, bytes, size: size))
  }

  /// All 32 bytes of the HMAC of `label ‖ bytes`.
  package func code(_ label: StaticString, _ bytes: [UInt8]) throws(CryptographyError) -> [UInt8] {
    var code = [UInt8](repeating: 0, count: Self.fullSize)
    try pool.withContext(
      make: { () throws(CryptographyError) in try makeContext() },
      { (context) throws(CryptographyError) in
        try context.restart()
        try unsafe context.update(UnsafeRawBufferPointer(start: label.utf8Start, count: label.utf8CodeUnitCount))
        try unsafe bytes.withBytes { (bytes) throws(CryptographyError) in try unsafe context.update(bytes) }
        try unsafe code.withMutableBytes { (code) throws(CryptographyError) in try unsafe context.finish(into: code) }
      })
    return code
  }

  private func makeContext() throws(CryptographyError) -> MACContext {
    return try unsafe key.withBytes { (key) throws(CryptographyError) in
      try unsafe MACContext(.hmac, key: key, "digest", "SHA256")
    }
  }
}
