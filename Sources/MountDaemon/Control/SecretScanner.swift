import Cryptography
import ProtectfsClient

/// Why a message is not read on; its sender is not answered.
enum MessageError: Error, Equatable {
  /// No JSON object, or not UTF-8.
  case malformed
  /// Nested more deeply than any call of the interface.
  case tooDeep
  /// Longer than ``ControlInterface/longestMessage``.
  case tooLong
  /// The peer was idle, or slow to send the rest of a message.
  case timedOut
  /// The peer has closed the connection.
  case ended
}

/// The secrets that came with a call.
struct CallSecrets: ~Copyable {
  /// What opens the store.
  var old = Group()
  /// What is to open it from now on.
  var new = Group()
  /// What a host was asked for with.
  var pairingCode: SecretBytes?

  /// One of each kind.
  struct Group: ~Copyable {
    var passcode: SecretBytes?
    var tpmPasscode: SecretBytes?
    var recoveryKey: SecretBytes?
    var keyFile: SecretBytes?

    /// How many there are.
    var count: Int {
      (passcode == nil ? 0 : 1) + (tpmPasscode == nil ? 0 : 1) + (recoveryKey == nil ? 0 : 1)
        + (keyFile == nil ? 0 : 1)
    }
  }

  /// - Throws: `malformed` when there is one already.
  fileprivate mutating func take(
    _ value: consuming SecretBytes, as member: ControlInterface.SecretMember
  ) throws(MessageError) {
    switch member {
    case .passcode: try Self.fill(&old.passcode, value)
    case .recoveryKey: try Self.fill(&old.recoveryKey, value)
    case .keyFile: try Self.fill(&old.keyFile, value)
    case .newPasscode: try Self.fill(&new.passcode, value)
    case .newTPMPasscode: try Self.fill(&new.tpmPasscode, value)
    case .newRecoveryKey: try Self.fill(&new.recoveryKey, value)
    case .newKeyFile: try Self.fill(&new.keyFile, value)
    case .pairingCode: try Self.fill(&pairingCode, value)
    }
  }

  private static func fill(_ place: inout SecretBytes?, _ value: consuming SecretBytes) throws(MessageError) {
    guard place == nil else { throw .malformed }
    place = consume value
  }
}

/// Takes the secrets out of a call before a JSON decoder sees it, so that no copy of one is left on the heap.
///
/// The value of a member named ``ControlInterface/SecretMember``, wherever it is, is overwritten with asterisks between
/// its quotes, which leaves JSON; that of a direct member of `parameters` is decoded into ``SecretBytes`` first. All
/// of the message is checked on the way: RFC 8259's structure and strings, and a bound on the depth. The spelling
/// of numbers is left to the decoder.
@safe struct SecretScanner: ~Copyable {
  /// Calls have two levels; some room is left for what later versions add.
  static let deepest = 8

  private let bytes: UnsafeMutableRawBufferPointer
  private var position = 0
  private var secrets = CallSecrets()

  /// Scans a message without its closing NUL.
  static func takeSecrets(from message: UnsafeMutableRawBufferPointer) throws(MessageError) -> CallSecrets {
    guard unsafe isUTF8(UnsafeRawBufferPointer(message)) else { throw .malformed }
    var scanner = unsafe SecretScanner(bytes: message)
    scanner.skipBlanks()
    guard scanner.peek() == UInt8(ascii: "{") else { throw .malformed }
    try scanner.scanObject(depth: 1, isParameters: false)
    scanner.skipBlanks()
    guard scanner.position == message.count else { throw .malformed }
    return scanner.finish()
  }

  private init(bytes: UnsafeMutableRawBufferPointer) {
    unsafe self.bytes = bytes
  }

  private consuming func finish() -> CallSecrets { secrets }

  // MARK: Structure

  private mutating func scanObject(depth: Int, isParameters: Bool) throws(MessageError) {
    guard depth <= Self.deepest else { throw .tooDeep }
    try expect("{")
    skipBlanks()
    if peek() == UInt8(ascii: "}") { return try expect("}") }
    while true {
      skipBlanks()
      let name = try scanString()
      skipBlanks()
      try expect(":")
      skipBlanks()
      if let secret = secretMember(name) {
        try scanSecret(secret, depth: depth, isTaken: isParameters)
      } else {
        try scanValue(depth: depth, isParameters: depth == 1 && equals(name, "parameters"))
      }
      skipBlanks()
      if peek() == UInt8(ascii: "}") { return try expect("}") }
      try expect(",")
    }
  }

  private mutating func scanArray(depth: Int) throws(MessageError) {
    guard depth <= Self.deepest else { throw .tooDeep }
    try expect("[")
    skipBlanks()
    if peek() == UInt8(ascii: "]") { return try expect("]") }
    while true {
      skipBlanks()
      try scanValue(depth: depth, isParameters: false)
      skipBlanks()
      if peek() == UInt8(ascii: "]") { return try expect("]") }
      try expect(",")
    }
  }

  private mutating func scanValue(depth: Int, isParameters: Bool) throws(MessageError) {
    switch peek() {
    case UInt8(ascii: "{"): try scanObject(depth: depth + 1, isParameters: isParameters)
    case UInt8(ascii: "["): try scanArray(depth: depth + 1)
    case UInt8(ascii: "\""): _ = try scanString()
    default: try scanWord()
    }
  }

  /// Passes a number, `true`, `false` or `null`.
  private mutating func scanWord() throws(MessageError) {
    let start = position
    while let byte = peek(), JSONCharacter.isOfWord(byte) { position += 1 }
    guard position > start else { throw .malformed }
  }

  /// Passes a string; returns the range between its quotes.
  private mutating func scanString() throws(MessageError) -> Range<Int> {
    try expect("\"")
    let start = position
    while let byte = peek() {
      switch byte {
      case UInt8(ascii: "\""):
        position += 1
        return start..<(position - 1)
      case UInt8(ascii: "\\"):
        position += 1
        _ = try unsafe JSONCharacter.readEscape(from: UnsafeRawBufferPointer(bytes), at: &position)
      case 0..<0x20:
        throw .malformed
      default:
        position += 1
      }
    }
    throw .malformed
  }

  // MARK: Secrets

  private mutating func scanSecret(
    _ member: ControlInterface.SecretMember, depth: Int, isTaken: Bool
  ) throws(MessageError) {
    guard peek() == UInt8(ascii: "\"") else {
      // What is no string is not taken, and the decoder refuses it or finds `null`.
      return try scanValue(depth: depth, isParameters: false)
    }
    let range = try scanString()
    if isTaken {
      try secrets.take(try decode(range), as: member)
    }
    for index in range { unsafe bytes[index] = UInt8(ascii: "*") }
  }

  /// The text of a string that ``scanString()`` has passed.
  private func decode(_ range: Range<Int>) throws(MessageError) -> SecretBytes {
    var text = SecretBytes(count: range.count)
    let count = try unsafe text.withMutableBytes { (text) throws(MessageError) -> Int in
      var from = range.lowerBound
      var count = 0
      while from < range.upperBound {
        let byte = unsafe bytes[from]
        from += 1
        if byte == UInt8(ascii: "\\") {
          let scalar = try unsafe JSONCharacter.readEscape(from: UnsafeRawBufferPointer(bytes), at: &from)
          for unit in UTF8.encode(scalar)! {
            unsafe text[count] = unit
            count += 1
          }
        } else {
          unsafe text[count] = byte
          count += 1
        }
      }
      return count
    }
    return text.prefix(count)
  }

  private func secretMember(_ name: Range<Int>) -> ControlInterface.SecretMember? {
    ControlInterface.SecretMember.allCases.first { equals(name, $0.rawValue) }
  }

  /// Whether a member's name, its escapes undone, is that text.
  private func equals(_ name: Range<Int>, _ text: String) -> Bool {
    var from = name.lowerBound
    var rest = text.unicodeScalars[...]
    while from < name.upperBound {
      guard let expected = rest.popFirst() else { return false }
      var scalar = unsafe Unicode.Scalar(bytes[from])
      from += 1
      if scalar == "\\" {
        guard let escaped = try? unsafe JSONCharacter.readEscape(from: UnsafeRawBufferPointer(bytes), at: &from) else {
          return false
        }
        scalar = escaped
      }
      guard scalar == expected else { return false }
    }
    return rest.isEmpty
  }

  // MARK: Bytes

  private func peek() -> UInt8? { unsafe position < bytes.count ? bytes[position] : nil }

  private mutating func expect(_ character: Unicode.Scalar) throws(MessageError) {
    guard peek() == UInt8(ascii: character) else { throw .malformed }
    position += 1
  }

  private mutating func skipBlanks() {
    while let byte = peek(), JSONCharacter.isBlank(byte) { position += 1 }
  }
}
