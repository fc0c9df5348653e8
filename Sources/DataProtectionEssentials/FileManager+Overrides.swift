import FoundationEssentials

extension FileManager {
  /// Whether the next call of a method by ``callFoundation(_:_:)`` may be one of an override.
  func mayOverride(_ method: String) -> Bool {
    type(of: self) != FileManager.self
      && !OverrideCall.running.contains(OverrideCall(object: ObjectIdentifier(self), method: method))
  }

  /// Calls Foundation's method, or the override of a subclass.
  ///
  /// What the override calls by way of `super` is this module's property again, whose value would call the override.
  /// Such a call goes to a plain file manager.
  /// - Parameters:
  ///   - method: its name.
  ///   - body: calls the method on the file manager that it gets.
  func callFoundation<Result>(_ method: String, _ body: (FileManager) throws -> Result) rethrows -> Result {
    if type(of: self) == FileManager.self { return try body(self) }
    let call = OverrideCall(object: ObjectIdentifier(self), method: method)
    if OverrideCall.running.contains(call) {
      let plain = FileManager()
      plain.delegate = delegate
      return try body(plain)
    }
    return try OverrideCall.$running.withValue(OverrideCall.running.union([call])) { try body(self) }
  }
}

/// A method of a subclass, called on an object.
private struct OverrideCall: Hashable {
  let object: ObjectIdentifier
  let method: String

  @TaskLocal static var running: Set<OverrideCall> = []
}
