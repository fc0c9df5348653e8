import Cryptography
import ProtectfsIO

extension SecretBytes {
  /// The bytes that a text stands for, without a copy elsewhere.
  init?(hexadecimal text: borrowing SecretBytes) {
    var bytes = SecretBytes(count: text.count / 2)
    let isValid = unsafe text.withBytes { text in
      unsafe bytes.withMutableBytes { bytes in
        guard text.count % 2 == 0 else { return false }
        for index in bytes.indices {
          guard let high = unsafe hexadecimalValue(of: text[2 * index]),
            let low = unsafe hexadecimalValue(of: text[2 * index + 1])
          else { return false }
          unsafe bytes[index] = high << 4 | low
        }
        return true
      }
    }
    guard isValid else { return nil }
    self = bytes
  }
}
