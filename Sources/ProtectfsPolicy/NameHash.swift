/// A hash of a name, to distinguish the names of one user or one directory: 64-bit FNV-1a.
package enum NameHash {
  /// The 16 hexadecimal digits of the hash of some bytes.
  package static func digits(of bytes: some Sequence<UInt8>) -> String {
    let hash = bytes.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 }
    let text = String(hash, radix: 16)
    return String(repeating: "0", count: 16 - text.count) + text
  }
}
