import CLibcrypto

/// The two keyed contexts of AES-SIV, and RFC 5297's S2V composed of them.
///
/// libcrypto has AES-SIV, but in 3.0 one of its contexts encrypts a single message. For the next message it must be
/// duplicated or keyed again, which allocates, and with a key also fetches (0.8 and 2.2 µs). CMAC and CTR contexts
/// restart in place. A test shows that libcrypto's AES-SIV produces the same bytes.
final class SyntheticVectorContext: @unchecked Sendable {
  private let mac: MACContext
  private let counter: CipherContext
  /// The CMAC of a block of zeros, which every S2V starts with.
  private let first: UInt128

  /// Contexts with the two halves of a key.
  init(key: UnsafeRawBufferPointer, strength: NameCipher.Strength) throws(CryptographyError) {
    let half = key.count / 2
    unsafe mac = try MACContext(
      .cmac, key: UnsafeRawBufferPointer(rebasing: key[..<half]), "cipher",
      strength == .aes256 ? "AES-256-CBC" : "AES-128-CBC")
    unsafe counter = try CipherContext(
      strength == .aes256 ? .aes256CTR : .aes128CTR, key: UnsafeRawBufferPointer(rebasing: key[half...]),
      encrypts: true)
    first = try Self.authenticate(0, with: mac)
  }

  /// The S2V of the associated data, if there is any, and the text (RFC 5297, section 2.4).
  func syntheticVector(
    of text: UnsafeRawBufferPointer, associatedData: [UInt8]?
  ) throws(CryptographyError) -> UInt128 {
    var state = first
    if let associatedData {
      try mac.restart()
      try unsafe associatedData.withBytes { (bytes) throws(CryptographyError) in try unsafe mac.update(bytes) }
      state = try doubled(state) ^ Self.finish(mac)
    }
    guard text.count >= 16 else {
      return try unsafe Self.authenticate(doubled(state) ^ padded(text), with: mac)
    }
    // The last 16 bytes of the text are masked: `xorend`.
    let end = text.count - 16
    let last = unsafe UInt128(bigEndian: text.loadUnaligned(fromByteOffset: end, as: UInt128.self))
    try mac.restart()
    try unsafe mac.update(UnsafeRawBufferPointer(rebasing: text[..<end]))
    try Self.update(mac, with: last ^ state)
    return try Self.finish(mac)
  }

  /// Encrypts or decrypts with the key stream that starts at the vector, in which two bits are cleared (section 2.5).
  func applyKeyStream(
    _ vector: UInt128, to source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer
  ) throws(CryptographyError) {
    guard let input = source.baseAddress, let output = target.baseAddress, source.count > 0 else { return }
    precondition(source.count <= target.count && source.count <= Int(CInt.max), "the text is too long")
    let start = (vector & ~(UInt128(1) << 63 | UInt128(1) << 31)).bigEndian
    let status = unsafe withUnsafeBytes(of: start) {
      unsafe EVP_EncryptInit_ex(
        counter.pointer, nil, nil, nil, $0.baseAddress!.assumingMemoryBound(to: UInt8.self))
    }
    try check(status, "set a counter")
    var produced: CInt = 0
    try check(
      unsafe EVP_EncryptUpdate(
        counter.pointer, output.assumingMemoryBound(to: UInt8.self), &produced,
        input.assumingMemoryBound(to: UInt8.self), CInt(source.count)), "apply a key stream")
  }

  /// Multiplication by x in GF(2^128) (section 2.3), without a branch on the secret.
  private func doubled(_ block: UInt128) -> UInt128 {
    (block &<< 1) ^ (0x87 & (0 &- (block &>> 127)))
  }

  /// A text of less than a block, followed by a 1 bit and zeros.
  private func padded(_ text: UnsafeRawBufferPointer) -> UInt128 {
    var block: UInt128 = 0
    for index in text.indices { block = unsafe block << 8 | UInt128(text[index]) }
    return (block << 8 | 0x80) << (8 * UInt128(15 - text.count))
  }

  private static func authenticate(_ block: UInt128, with mac: MACContext) throws(CryptographyError) -> UInt128 {
    try mac.restart()
    try update(mac, with: block)
    return try finish(mac)
  }

  private static func update(_ mac: MACContext, with block: UInt128) throws(CryptographyError) {
    try unsafe withUnsafeBytes(of: block.bigEndian) { (bytes) throws(CryptographyError) in
      try unsafe mac.update(bytes)
    }
  }

  private static func finish(_ mac: MACContext) throws(CryptographyError) -> UInt128 {
    var block: UInt128 = 0
    try unsafe withUnsafeMutableBytes(of: &block) { (bytes) throws(CryptographyError) in
      try unsafe mac.finish(into: bytes)
    }
    return UInt128(bigEndian: block)
  }
}
