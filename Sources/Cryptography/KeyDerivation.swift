import CLibcrypto

/// Derivation of keys from keys and from passcodes.
package enum KeyDerivation {
  /// HKDF-SHA256 (RFC 5869): a key for each use, none of which reveals another.
  package static func hkdf(
    ikm: borrowing SecretBytes, salt: [UInt8], info: String, count: Int
  ) throws(CryptographyError) -> SecretBytes {
    try hkdf(ikm: ikm, salt: salt, info: Array(info.utf8), count: count)
  }

  /// HKDF-SHA256 with any bytes as info.
  package static func hkdf(
    ikm: borrowing SecretBytes, salt: [UInt8], info: [UInt8], count: Int
  ) throws(CryptographyError) -> SecretBytes {
    try unsafe ikm.withBytes { (ikm) throws(CryptographyError) in
      try unsafe salt.withBytes { (salt) throws(CryptographyError) in
        try unsafe info.withBytes { (info) throws(CryptographyError) in
          var parameters = ParameterList()
          parameters.add("digest", text: "SHA256")
          unsafe parameters.add("key", bytes: ikm)
          if salt.count > 0 { unsafe parameters.add("salt", bytes: salt) }
          if info.count > 0 { unsafe parameters.add("info", bytes: info) }
          return try derive(.hkdf, parameters, count: count)
        }
      }
    }
  }

  /// NIST SP 800-108r1, section 4.1: counter mode with HMAC-SHA256, over the fixed data
  /// `label ‖ 00 ‖ context ‖ L`, where L is the length of the result in bits, as 32 bits, big-endian.
  package static func counterMode(
    key: borrowing SecretBytes, label: String, context: [UInt8] = [], count: Int
  ) throws(CryptographyError) -> SecretBytes {
    var fixedData = Array(label.utf8) + [0] + context
    for shift in [24, 16, 8, 0] { fixedData.append(UInt8(truncatingIfNeeded: (count * 8) >> shift)) }
    return try counterMode(key: key, fixedData: fixedData, count: count)
  }

  /// The same with other fixed data: HMACs of `counter ‖ fixed data`, where the counter has 32 bits, big-endian, from
  /// 1.
  ///
  /// libcrypto has this mode, but parses its parameters and makes several contexts for each key. A test shows that
  /// it derives the same bytes.
  static func counterMode(
    key: borrowing SecretBytes, fixedData: [UInt8], count: Int
  ) throws(CryptographyError) -> SecretBytes {
    let size = RecordAuthenticator.fullSize
    let blocks = (count + size - 1) / size
    var output = SecretBytes(count: blocks * size)
    try macContexts.withContext(
      make: { () throws(CryptographyError) in try MACContext.keyless() },
      { (context) throws(CryptographyError) in
        try unsafe key.withBytes { (key) throws(CryptographyError) in try unsafe context.restart(key: key) }
        for block in 0..<blocks {
          if block > 0 { try context.restart() }
          try unsafe withUnsafeBytes(of: UInt32(block + 1).bigEndian) { (counter) throws(CryptographyError) in
            try unsafe context.update(counter)
          }
          try unsafe fixedData.withBytes { (data) throws(CryptographyError) in try unsafe context.update(data) }
          try unsafe output.withMutableBytes { (output) throws(CryptographyError) in
            try unsafe context.finish(
              into: UnsafeMutableRawBufferPointer(rebasing: output[block * size..<(block + 1) * size]))
          }
        }
        try context.forgetKey()
      })
    return count == output.count ? output : output.prefix(count)
  }

  /// Contexts for counter mode, which have a key only while they are in use.
  private static let macContexts = ContextPool<MACContext>()

  /// The one-step derivation of NIST SP 800-56C with SHA-256: the hashes of `counter ‖ secret ‖ info`, where the
  /// counter has 32 bits, big-endian, from 1. It is the concatenation KDF of the first SP 800-56A.
  package static func concatenation(
    secret: borrowing SecretBytes, info: [UInt8], count: Int
  ) throws(CryptographyError) -> SecretBytes {
    try unsafe secret.withBytes { (secret) throws(CryptographyError) in
      try unsafe info.withBytes { (info) throws(CryptographyError) in
        var parameters = ParameterList()
        parameters.add("digest", text: "SHA256")
        unsafe parameters.add("key", bytes: secret)
        if info.count > 0 { unsafe parameters.add("info", bytes: info) }
        return try derive(.sskdf, parameters, count: count)
      }
    }
  }

  /// Runs a key derivation in libcrypto.
  static func derive(
    _ algorithm: Algorithm, _ parameters: borrowing ParameterList, count: Int
  ) throws(CryptographyError) -> SecretBytes {
    let context = try unsafe check(EVP_KDF_CTX_new(algorithm.method), "make a key derivation")
    defer { unsafe EVP_KDF_CTX_free(context) }
    var output = SecretBytes(count: count)
    let status = unsafe output.withMutableBytes { output in
      unsafe parameters.withPointer {
        unsafe EVP_KDF_derive(
          context, output.baseAddress?.assumingMemoryBound(to: UInt8.self), output.count, $0)
      }
    }
    try check(status, "derive a key")
    return output
  }
}

/// SHA-256 of bytes that are not secret (FIPS 180-4), for the backing names of long names.
package func sha256(_ bytes: [UInt8]) throws(CryptographyError) -> [UInt8] {
  var digest = [UInt8](repeating: 0, count: 32)
  let method = try unsafe Algorithm.sha256.method
  let status = unsafe bytes.withBytes { bytes in
    unsafe digest.withUnsafeMutableBufferPointer {
      unsafe EVP_Digest(bytes.baseAddress, bytes.count, $0.baseAddress, nil, method, nil)
    }
  }
  try check(status, "compute a digest")
  return digest
}
