import CLibcrypto

/// The cost of scrypt (RFC 7914, section 2).
package struct ScryptParameters: Sendable, Equatable {
  /// The logarithm to base 2 of N, the cost in time and memory.
  package var logN: UInt8
  /// The block size r: each of the N blocks has 128·r bytes.
  package var r: UInt8
  /// The parallelisation p: how often the whole is computed, one after another.
  package var p: UInt8

  /// The cost with these parameters.
  package init(logN: UInt8, r: UInt8, p: UInt8) {
    self.logN = logN
    self.r = r
    self.p = p
  }

  /// The memory that the derivation needs, in bytes: N blocks and a few more.
  package var memory: UInt64 { 128 * UInt64(r) * ((1 << UInt64(min(logN, 40))) + UInt64(p) + 2) }
}

extension KeyDerivation {
  /// scrypt: a key from a passcode, at a cost in time and memory that each guess has to pay as well (RFC 7914).
  package static func scrypt(
    passcode: borrowing SecretBytes, salt: [UInt8], parameters cost: ScryptParameters, count: Int = 32
  ) throws(CryptographyError) -> SecretBytes {
    try unsafe passcode.withBytes { (passcode) throws(CryptographyError) in
      try unsafe salt.withBytes { (salt) throws(CryptographyError) in
        var parameters = ParameterList()
        unsafe parameters.add("pass", bytes: passcode)
        unsafe parameters.add("salt", bytes: salt)
        parameters.add("n", number: 1 << UInt64(cost.logN))
        parameters.add("r", number: UInt64(cost.r))
        parameters.add("p", number: UInt64(cost.p))
        // By default, libcrypto refuses more than 32 MiB.
        parameters.add("maxmem_bytes", number: cost.memory + (1 << 20))
        return try derive(.scrypt, parameters, count: count)
      }
    }
  }
}
