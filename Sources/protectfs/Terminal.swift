import Cryptography
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The terminal of the process, from which secrets are read without being shown.
struct Terminal: ~Copyable {
  private let descriptor: Descriptor

  /// Opens the controlling terminal; `nil` where there is none.
  init?() {
    guard let opened = try? Descriptor.open("/dev/tty", [.readWrite]) else { return nil }
    descriptor = opened
  }

  /// Asks for a secret. What is typed goes into memory that is wiped, one key at a time.
  ///
  /// Backspace takes a character back and Ctrl-U all of them; Ctrl-C and Ctrl-D give up.
  func readSecret(prompt: String) throws(CommandFailure) -> SecretBytes {
    do {
      return try descriptor.withoutEcho {
        descriptor.show(prompt)
        defer { descriptor.show("\n") }
        return try readLine()
      }
    } catch let failure as CommandFailure {
      throw failure
    } catch {
      throw CommandFailure(.failure, "the terminal cannot be read without showing what is typed")
    }
  }

  /// Asks for a line, which is shown as it is typed; without what is around its words.
  func ask(_ prompt: String) -> String {
    descriptor.show(prompt)
    var line: [UInt8] = []
    while let key = readKey(), key != 10, key != 13, line.count < 1024 { line.append(key) }
    return String(decoding: line, as: UTF8.self).split { $0 == " " || $0 == "\t" }.joined(separator: " ")
  }

  private func readLine() throws(CommandFailure) -> SecretBytes {
    var line = SecretBytes(count: Keybag.longestPasscode + 1)
    var count = 0
    while true {
      let key = readKey()
      switch key {
      case nil, 3, 4: throw CommandFailure(.failure, "nothing was entered")
      case 10, 13: return line.prefix(count)
      case 8, 127: count = unsafe line.withBytes { unsafe Self.withoutLastCharacter($0, count) }
      case 21: count = 0
      case .some(let byte):
        guard count < line.count else { throw CommandFailure(.failure, "what was entered is too long") }
        unsafe line.withMutableBytes { unsafe $0[count] = byte }
        count += 1
      }
    }
  }

  private func readKey() -> UInt8? {
    var key: UInt8 = 0
    let count = unsafe withUnsafeMutableBytes(of: &key) { unsafe try? descriptor.readNext(into: $0) }
    return count == 1 ? key : nil
  }

  /// The length of UTF-8 text without its last character's bytes.
  private static func withoutLastCharacter(_ text: UnsafeRawBufferPointer, _ count: Int) -> Int {
    var count = count
    while count > 0 {
      count -= 1
      if unsafe text[count] & 0xC0 != 0x80 { break }
    }
    return count
  }
}
