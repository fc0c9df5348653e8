import ProtectfsIO

/// The arguments of a request: structures and names, one after another.
package struct Message: Sendable {
  package private(set) var bytes: [UInt8] = []

  package init() {}

  package init(_ arguments: some BitwiseCopyable) {
    append(arguments)
  }

  package init(_ name: PathName) {
    append(name)
  }

  package mutating func append<Arguments: BitwiseCopyable>(_ arguments: Arguments) {
    unsafe withUnsafeBytes(of: arguments) { unsafe bytes.append(contentsOf: $0) }
  }

  /// With the NUL at its end.
  package mutating func append(_ name: PathName) {
    bytes += name.terminated
  }

  package mutating func append(bytes more: [UInt8]) {
    bytes += more
  }
}

extension [UInt8] {
  /// The structure that an answer has at a place; zeros where it is shorter.
  func value<Value: BitwiseCopyable>(at offset: Int = 0, as type: Value.Type) -> Value {
    var part = self.dropFirst(offset).prefix(MemoryLayout<Value>.size) + []
    part += [UInt8](repeating: 0, count: MemoryLayout<Value>.size - part.count)
    return unsafe Array(part).withUnsafeBytes { unsafe $0.loadUnaligned(as: type) }
  }
}
