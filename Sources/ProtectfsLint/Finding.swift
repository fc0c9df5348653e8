/// A place where a protection class is lost, or may be.
package struct Finding: Codable, Equatable, Sendable {
  package enum Kind: String, Codable, Sendable {
    /// A call of Foundation's method.
    case call
    /// A call of a protocol's requirement that Foundation's method satisfies.
    case requirement
    /// The conformance by which it does.
    case conformance
    /// The method as a value.
    case value
  }

  package let file: String
  package let line: Int
  /// Counts bytes from 1, as compilers do.
  package let column: Int
  package let kind: Kind
  /// The method with its labels.
  package let method: String
  /// Whether a class is lost; false if that depends on a value that the lint does not know.
  package let isCertain: Bool
  package let reason: String
  package let instead: String
}

extension Finding: CustomStringConvertible {
  /// As compilers print it, so that editors find the place.
  package var description: String {
    "\(file):\(line):\(column): \(isCertain ? "error" : "warning"): \(method): \(reason); \(instead)"
  }
}
