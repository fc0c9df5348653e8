import ProtectfsPolicy
import StoreFormat

func fuzzAttributes(_ bytes: [UInt8]) {
  if let (encryptedName, encryptedValue) = try? AttributeEncoding.parse(bytes) {
    precondition(AttributeEncoding.value(encryptedName: encryptedName, encryptedValue: encryptedValue) == bytes)
    precondition((17...271).contains(encryptedName.count) && encryptedValue.count >= 16)
    let longest = encryptedName.count - 16 + encryptedValue.count - 16 + AttributeEncoding.overhead
    precondition(bytes.count == longest)
  }
  if AttributeEncoding.isBackingName(bytes) {
    let hash = Base64URL.decode(bytes.dropFirst(AttributeEncoding.prefix.utf8.count))
    precondition(hash.map(\.count) == 16 && hash.map(AttributeEncoding.backingName) == bytes)
  }
  // As the attribute that sets a class has it, no other spelling is a class.
  let text = String(decoding: bytes, as: UTF8.self)
  if let fileClass = ProtectionClass(name: text) {
    let names = [fileClass.name, fileClass.letter, fileClass.foundationName]
    precondition(names.contains { $0.utf8.elementsEqual(bytes) })
    precondition(ProtectionClass(name: fileClass.name) == fileClass)
  }
}
