import FoundationEssentials

// `String.write(to:atomically:encoding:)`, with which Foundation replaces a file by one without encrypted fields.
// FileManager+Attributes.swift explains why this is a property.
extension StringProtocol {
  /// `write(to:atomically:encoding:)`, with which a replaced file on a mount passes on its encrypted fields and its
  /// explicit class.
  public var write: TextWriting<Self> { TextWriting(text: self) }
}

/// The calls `write(to:atomically:encoding:)` and `write(toFile:atomically:encoding:)` of a text.
public struct TextWriting<Text: StringProtocol> {
  fileprivate let text: Text

  /// Writes the text to a file.
  ///
  /// - Throws: as ``FoundationEssentials/Data/FileWriting/callAsFunction(to:options:)``, and Foundation's errors.
  public func callAsFunction(to url: URL, atomically: Bool, encoding: String.Encoding) throws {
    try FileManager.refuseNUL(in: url.path(percentEncoded: false))
    if atomically, let data = text.data(using: encoding), try ProtectedWrite.run(data, to: url, .atomic) { return }
    let foundation: (URL, Bool, String.Encoding) throws -> Void = text.write
    try foundation(url, atomically, encoding)
  }

  /// Writes the text to a file by its path.
  ///
  /// - Throws: as ``callAsFunction(to:atomically:encoding:)``.
  public func callAsFunction(toFile path: some StringProtocol, atomically: Bool, encoding: String.Encoding) throws {
    try FileManager.refuseNUL(in: String(path))
    if atomically, let data = text.data(using: encoding),
      try ProtectedWrite.run(data, to: URL(fileURLWithPath: String(path)), .atomic)
    {
      return
    }
    let foundation: (String, Bool, String.Encoding) throws -> Void = text.write
    try foundation(String(path), atomically, encoding)
  }
}
