import ProtectfsIO

/// A call with secrets, encoded into a buffer that is wiped when the value is destroyed.
///
/// An encoder would leave copies of a passcode in memory that is not wiped. Once made it does not change, so that
/// threads may share it.
@safe struct SecretMessage: ~Copyable, @unchecked Sendable {
  private let buffer: UnsafeMutableRawBufferPointer
  private var count = 0

  /// A member of the parameters.
  @unsafe enum Member {
    /// Text in UTF-8.
    case text(ControlInterface.SecretMember, UnsafeRawBufferPointer)
    /// Bytes, which are sent as hexadecimal digits.
    case bytes(ControlInterface.SecretMember, UnsafeRawBufferPointer)
    /// Not secret.
    case plain(String, String)
    /// Texts that are not secret.
    case list(String, [String])
  }

  /// A call of a method with these parameters.
  ///
  /// - Parameter more: whether several replies are requested.
  /// - Throws: ``ControlError/Code-swift.enum/invalidRequest`` for an empty secret, or a text that is not UTF-8.
  init(_ method: ControlInterface.Method, _ members: [Member], more: Bool = false) throws(ControlError) {
    // A byte becomes at most six: \u001F.
    let capacity = unsafe members.reduce(256) { unsafe $0 + 64 + 6 * $1.count }
    unsafe buffer = .allocate(byteCount: capacity, alignment: 16)
    append("{\"method\":\"\(method.qualifiedName)\",\(more ? "\"more\":true," : "")\"parameters\":{")
    for index in unsafe members.indices {
      if index > 0 { append(",") }
      try unsafe append(members[index])
    }
    append("}}\0")
  }

  private mutating func append(_ member: Member) throws(ControlError) {
    switch unsafe member {
    case .text(let name, let value):
      guard unsafe !value.isEmpty else { throw ControlError(.invalidRequest, "a passcode must not be empty") }
      guard unsafe isUTF8(value) else {
        throw ControlError(.invalidRequest, "a passcode must be UTF-8 text")
      }
      append("\"\(name.rawValue)\":\"")
      unsafe value.forEach { append(escaping: $0) }
    case .bytes(let name, let value):
      guard unsafe !value.isEmpty else { throw ControlError(.invalidRequest, "a key file must not be empty") }
      append("\"\(name.rawValue)\":\"")
      unsafe value.forEach { byte in
        append(hexadecimalDigit(byte >> 4))
        append(hexadecimalDigit(byte & 0xF))
      }
    case .plain(let name, let value):
      append("\"\(name)\":\"")
      value.utf8.forEach { append(escaping: $0) }
    case .list(let name, let values):
      append("\"\(name)\":[")
      for (index, value) in values.enumerated() {
        append(index == 0 ? "\"" : ",\"")
        value.utf8.forEach { append(escaping: $0) }
        append("\"")
      }
      return append("]")
    }
    append("\"")
  }

  deinit {
    unsafe Memory.wipe(buffer)
    unsafe buffer.deallocate()
  }

  /// Calls `body` with the message, including its NUL.
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

/// Whether the bytes are well-formed UTF-8. They are not copied.
package func isUTF8(_ bytes: UnsafeRawBufferPointer) -> Bool {
  unsafe bytes.withMemoryRebound(to: UInt8.self) { (try? unsafe UTF8Span(validating: $0.span)) != nil }
}

extension SecretMessage.Member {
  /// The length of its value before escaping, in bytes.
  fileprivate var count: Int {
    switch unsafe self {
    case .text(_, let value), .bytes(_, let value): value.count
    case .plain(_, let value): value.utf8.count
    case .list(_, let values): values.reduce(0) { $0 + $1.utf8.count + 1 }
    }
  }
}
