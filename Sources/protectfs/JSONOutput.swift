import FoundationEssentials

/// Reports for programs.
enum JSONOutput {
  /// Prints a value as JSON, with its members sorted.
  static func show(_ value: some Encodable) throws {
    try show(value, [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes])
  }

  /// Prints a value as JSON on one line.
  static func showLine(_ value: some Encodable) throws {
    try show(value, [.sortedKeys, .withoutEscapingSlashes])
  }

  private static func show(_ value: some Encodable, _ formatting: JSONEncoder.OutputFormatting) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = formatting
    print(String(decoding: try encoder.encode(value), as: UTF8.self))
  }
}
