import Glibc

/// A call that carries secrets, written by hand into one buffer that is overwritten when its value ends.
///
/// An encoder would leave copies of a passcode behind in memory that nobody wipes.
@safe struct SecretMessage: ~Copyable {
  private let buffer: UnsafeMutableRawBufferPointer
  private var count = 0

  /// A call of a method whose parameters are the members, values being UTF-8 text.
  ///
  /// - Throws: ``ControlError/Code-swift.enum/invalidRequest`` for a value that is empty or no UTF-8.
  init(
    _ method: ControlInterface.Method, _ members: [(ControlInterface.SecretMember, UnsafeRawBufferPointer)]
  ) throws(ControlError) {
    // A byte becomes six at most: \u001F.
    let capacity = unsafe members.reduce(256) { unsafe $0 + 32 + 6 * $1.1.count }
    unsafe buffer = .allocate(byteCount: capacity, alignment: 16)
    append("{\"method\":\"\(method.qualifiedName)\",\"parameters\":{")
    for index in unsafe members.indices {
      let (name, value) = unsafe members[index]
      guard unsafe !value.isEmpty else { throw ControlError(.invalidRequest, "a passcode must not be empty") }
      guard unsafe isUTF8(value) else {
        throw ControlError(.invalidRequest, "a passcode must be UTF-8 text")
      }
      append(index == 0 ? "\"" : ",\"")
      append(name.rawValue)
      append("\":\"")
      unsafe value.forEach { append(escaping: $0) }
      append("\"")
    }
    append("}}\0")
  }

  deinit {
    unsafe explicit_bzero(buffer.baseAddress!, buffer.count)
    unsafe buffer.deallocate()
  }

  /// Calls `body` with the message, its NUL included.
  func withBytes<Failure: Error>(_ body: (UnsafeRawBufferPointer) throws(Failure) -> Void) throws(Failure) {
    try unsafe body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
  }

  private mutating func append(_ byte: UInt8) {
    unsafe buffer[count] = byte
    count += 1
  }

  private mutating func append(_ text: String) {
    text.utf8.forEach { append($0) }
  }

  /// Appends a byte of a JSON string (RFC 8259, section 7).
  private mutating func append(escaping byte: UInt8) {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"):
      append(UInt8(ascii: "\\"))
      append(byte)
    case 0..<0x20:
      append("\\u00")
      append(hexadecimalDigit(byte >> 4))
      append(hexadecimalDigit(byte & 0xF))
    default:
      append(byte)
    }
  }

  private func hexadecimalDigit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
  }
}

/// Whether the bytes are well-formed UTF-8, told without making a copy of them.
package func isUTF8(_ bytes: UnsafeRawBufferPointer) -> Bool {
  unsafe bytes.withMemoryRebound(to: UInt8.self) { (try? unsafe UTF8Span(validating: $0.span)) != nil }
}
