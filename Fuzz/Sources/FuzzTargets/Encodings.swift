import Cryptography
import StoreFormat

@testable import MountDaemon

func fuzzEncodings(_ bytes: [UInt8]) {
  precondition(Base64URL.decode(Base64URL.encode(bytes)) == bytes)
  precondition(Base64URL.encode(bytes).count == Base64URL.encodedCount(bytes.count))
  if let decoded = Base64URL.decode(bytes) {
    precondition(Base64URL.encode(decoded) == bytes, "bytes have one text")
    precondition(decoded.count == Base64URL.decodedCount(bytes.count))
  }
  precondition(Base64URL.decode(AnyCollection(bytes)) == Base64URL.decode(bytes))

  precondition([UInt8](hexadecimal: bytes.hexadecimal) == bytes)
  let text = String(decoding: bytes, as: UTF8.self)
  let decoded = [UInt8](hexadecimal: text)
  if let decoded { precondition(decoded.hexadecimal == text.lowercased() && decoded.count * 2 == text.utf8.count) }
  switch SecretBytes(hexadecimal: SecretBytes(Array(text.utf8))) {
  case .some(let secret): precondition(unsafe secret.withBytes { unsafe Array($0) } == decoded)
  case .none: precondition(decoded == nil)
  }

  if let id = StoreID(text) { precondition(id.description == text.lowercased() && id.bytes.count == 16) }
  if let id = StoreID(bytes: bytes) { precondition(StoreID(id.description) == id) }
}
