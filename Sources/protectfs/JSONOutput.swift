import FoundationEssentials

/// Reports for programs.
enum JSONOutput {
  /// Prints a value as JSON, with its members sorted.
  static func show(_ value: some Encodable) throws { print(try text(value, [.prettyPrinted])) }

  /// Prints a value as JSON on one line.
  static func showLine(_ value: some Encodable) throws { print(try line(value)) }

  /// A value as JSON on one line.
  static func line(_ value: some Encodable) throws -> String { try text(value, []) }

  private static func text(_ value: some Encodable, _ formatting: JSONEncoder.OutputFormatting) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = formatting.union([.sortedKeys, .withoutEscapingSlashes])
    return String(decoding: try encoder.encode(value), as: UTF8.self)
  }
}
