import CLibcrypto

/// An algorithm of libcrypto's providers, looked up once per process.
///
/// A lookup takes a lock and uses a hash table; done at each call, it would cost more than encrypting a block.
@safe struct Algorithm: @unchecked Sendable {
  private let pointer: OpaquePointer?

  /// The method to pass to libcrypto.
  var method: OpaquePointer {
    get throws(CryptographyError) { try unsafe check(pointer, "find an algorithm") }
  }

  private static func cipher(_ name: String) -> Algorithm {
    unsafe Algorithm(pointer: EVP_CIPHER_fetch(nil, name, nil))
  }

  private static func mac(_ name: String) -> Algorithm {
    unsafe Algorithm(pointer: EVP_MAC_fetch(nil, name, nil))
  }

  private static func derivation(_ name: String) -> Algorithm {
    unsafe Algorithm(pointer: EVP_KDF_fetch(nil, name, nil))
  }

  private static func digest(_ name: String) -> Algorithm {
    unsafe Algorithm(pointer: EVP_MD_fetch(nil, name, nil))
  }

  /// FIPS 180-4.
  static let sha256 = digest("SHA256")
  /// IEEE 1619; NIST SP 800-38E.
  static let aes256XTS = cipher("AES-256-XTS")
  /// NIST SP 800-38D.
  static let aes256GCM = cipher("AES-256-GCM")
  /// NIST SP 800-38A, section 6.5.
  static let aes128CTR = cipher("AES-128-CTR")
  /// NIST SP 800-38A, section 6.5.
  static let aes256CTR = cipher("AES-256-CTR")
  /// AES itself (FIPS 197), block by block.
  static let aes256ECB = cipher("AES-256-ECB")
  /// NIST SP 800-38B.
  static let cmac = mac("CMAC")
  /// RFC 2104.
  static let hmac = mac("HMAC")
  /// RFC 5869.
  static let hkdf = derivation("HKDF")
  /// NIST SP 800-56C, section 4 (one-step).
  static let sskdf = derivation("SSKDF")
  /// RFC 7914.
  static let scrypt = derivation("SCRYPT")
}

/// The parameters of a libcrypto call (`OSSL_PARAM(3)`), and the numbers they point to.
///
/// Names and texts are `StaticString`s because libcrypto keeps their addresses. Byte buffers must outlive the list.
@safe struct ParameterList: ~Copyable {
  private static let capacity = 8
  private let entries = UnsafeMutablePointer<OSSL_PARAM>.allocate(capacity: capacity + 1)
  private let numbers = UnsafeMutablePointer<UInt64>.allocate(capacity: capacity)
  private var count = 0

  init() {
    unsafe entries.initialize(to: OSSL_PARAM_construct_end())
    unsafe numbers.initialize(repeating: 0, count: Self.capacity)
  }

  deinit {
    unsafe entries.deallocate()
    unsafe numbers.deallocate()
  }

  private mutating func append(_ entry: OSSL_PARAM) {
    precondition(count < Self.capacity, "a parameter list has room for \(Self.capacity) parameters")
    unsafe entries[count] = entry
    count += 1
    unsafe (entries + count).initialize(to: OSSL_PARAM_construct_end())
  }

  mutating func add(_ name: StaticString, text: StaticString) {
    let value = unsafe UnsafeMutablePointer(mutating: text.cString)
    unsafe append(OSSL_PARAM_construct_utf8_string(name.cString, value, text.utf8CodeUnitCount))
  }

  mutating func add(_ name: StaticString, bytes: UnsafeRawBufferPointer) {
    let value = unsafe UnsafeMutableRawPointer(mutating: bytes.baseAddress ?? UnsafeRawPointer(name.utf8Start))
    unsafe append(OSSL_PARAM_construct_octet_string(name.cString, value, bytes.count))
  }

  mutating func add(_ name: StaticString, number: UInt64) {
    unsafe numbers[count] = number
    unsafe append(OSSL_PARAM_construct_uint64(name.cString, numbers + count))
  }

  /// Calls `body` with the list in libcrypto's form.
  func withPointer<Result>(_ body: (UnsafePointer<OSSL_PARAM>) -> Result) -> Result {
    unsafe body(entries)
  }
}

extension StaticString {
  /// The text as a C string, which is never freed.
  fileprivate var cString: UnsafePointer<CChar> {
    unsafe UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self)
  }
}
