/// Why nothing could be checked.
package struct LintError: Error, CustomStringConvertible {
  package let description: String

  /// What to do about a file that is not in the index.
  static let howToIndex = "The package must compile in debug with the index on, without --disable-index-store."

  package init(_ description: String) { self.description = description }
}
