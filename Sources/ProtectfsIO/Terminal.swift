import CProtectfsIO
import SystemPackage

/// The controlling terminal of the process (tty(4)).
package struct Terminal: ~Copyable {
  private let descriptor: Descriptor

  /// Opens the terminal; `nil` if there is none.
  package init?() {
    guard let opened = try? Descriptor.open("/dev/tty", [.readWrite]) else { return nil }
    descriptor = opened
  }

  /// Asks for a line, which is shown as it is typed. Returns its words with single blanks between them.
  package func ask(_ prompt: String) -> String {
    show(prompt)
    var line: [UInt8] = []
    while let key = readKey(), key != 10, key != 13, line.count < 1024 { line.append(key) }
    return String(decoding: line, as: UTF8.self).split { $0 == " " || $0 == "\t" }.joined(separator: " ")
  }

  /// Asks for a secret without showing it. Each key that is typed goes into the buffer and nowhere else.
  ///
  /// Backspace removes a character, Ctrl-U all of them; Ctrl-C and Ctrl-D give up.
  /// - Returns: the number of bytes; `nil` if the user gave up.
  /// - Throws: `EMSGSIZE` for more than the buffer holds; the error of a terminal whose echo cannot be turned off.
  package func readSecret(_ prompt: String, into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int? {
    try check(linux_hide_typing(descriptor.rawValue))
    defer { linux_show_typing() }
    show(prompt)
    defer { show("\n") }
    var count = 0
    while true {
      switch readKey() {
      case nil, 3, 4: return nil
      case 10, 13: return count
      case 8, 127:
        // The bytes of the last character in UTF-8.
        while count > 0 {
          count -= 1
          if unsafe buffer[count] & 0xC0 != 0x80 { break }
        }
      case 21: count = 0
      case .some(let byte):
        guard count < buffer.count else { throw .messageTooLong }
        unsafe buffer[count] = byte
        count += 1
      }
    }
  }

  /// Where it cannot be written, there is nobody to see it.
  private func show(_ text: String) {
    var text = text
    text.withUTF8 { unsafe _ = StandardStream.writeAll(descriptor.rawValue, UnsafeRawBufferPointer($0)) }
  }

  private func readKey() -> UInt8? {
    var key: UInt8 = 0
    let count = unsafe withUnsafeMutableBytes(of: &key) { unsafe try? descriptor.readNext(into: $0) }
    return count == 1 ? key : nil
  }
}
