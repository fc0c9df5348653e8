import CProtectfsIndexStore

// What the library's callbacks work on: they are C functions and capture nothing.

struct UnitRecords {
  let functions: index_functions
  let path: String
  var names: [String] = []
}

struct RecordOccurrences {
  let functions: index_functions
  let wanted: (String) -> Bool
  var occurrences: [Occurrence] = []

  func occurrence(_ handle: UnsafeMutableRawPointer) -> Occurrence? {
    let symbol = unsafe functions.occurrence_get_symbol(handle)
    let name = unsafe String(functions.symbol_get_name(symbol))
    guard wanted(name) else { return nil }
    var (line, column): (UInt32, UInt32) = (0, 0)
    unsafe functions.occurrence_get_line_col(handle, &line, &column)
    return unsafe Occurrence(
      name: name, usr: String(functions.symbol_get_usr(symbol)),
      roles: .init(rawValue: functions.occurrence_get_roles(handle)), line: Int(line), column: Int(column))
  }

  /// Adds a relation to the last occurrence.
  mutating func relate(_ relation: UnsafeMutableRawPointer) {
    let symbol = unsafe functions.symbol_relation_get_symbol(relation)
    occurrences[occurrences.count - 1].relations.append(
      unsafe Occurrence.Relation(
        roles: .init(rawValue: functions.symbol_relation_get_roles(relation)),
        name: String(functions.symbol_get_name(symbol)), usr: String(functions.symbol_get_usr(symbol))))
  }
}

extension index_functions {
  init(library: String) throws(LintError) {
    let functions = UnsafeMutablePointer<index_functions>.allocate(capacity: 1)
    defer { unsafe functions.deallocate() }
    var error: UnsafePointer<CChar>?
    guard unsafe index_load(library, functions, &error) else {
      let reason = unsafe error.map { unsafe String(cString: $0) } ?? library
      throw LintError("cannot load libIndexStore: \(reason)")
    }
    self = unsafe functions.pointee
  }

  /// The text of an error, which is disposed of.
  func describe(_ error: UnsafeMutableRawPointer?) -> String {
    guard let error = unsafe error else { return "unknown error" }
    defer { unsafe error_dispose(error) }
    return unsafe error_get_description(error).map { unsafe String(cString: $0) } ?? "unknown error"
  }
}

extension String {
  init(_ text: index_string) {
    let bytes = unsafe UnsafeRawBufferPointer(start: text.data, count: text.length)
    self = unsafe String(decoding: bytes, as: UTF8.self)
  }
}
