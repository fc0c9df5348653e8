/// A generator that is the same in each run (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(_ seed: UInt64) {
    state = seed
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }

  mutating func bytes(_ count: Int) -> [UInt8] {
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
