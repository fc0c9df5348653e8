/// A generator of repeatable numbers, so that a failure can be reproduced: SplitMix64 (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators").
package struct RepeatableGenerator: RandomNumberGenerator {
  private var state: UInt64

  package init(seed: UInt64) {
    state = seed
  }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }

  /// So many bytes.
  package mutating func bytes(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    unsafe bytes.withUnsafeMutableBytes { buffer in
      for start in stride(from: 0, to: count, by: 8) {
        unsafe withUnsafeBytes(of: next()) {
          unsafe buffer[start..<min(start + 8, count)].copyBytes(from: $0.prefix(count - start))
        }
      }
    }
    return bytes
  }
}
