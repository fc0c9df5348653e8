/// What the compiler wrote about a source file, as far as it concerns protection classes.
struct IndexedFile {
  let path: String
  let module: String
  /// When it was compiled: seconds and nanoseconds since 1970.
  let compiled: (seconds: Int64, nanoseconds: Int64)
  var occurrences: [Occurrence] = []
}

/// A place in a file where a symbol is named.
struct Occurrence {
  /// Roles of an occurrence, and of its relations to other symbols.
  struct Roles: OptionSet {
    let rawValue: UInt64
    static let definition = Roles(rawValue: 1 << 1)
    static let reference = Roles(rawValue: 1 << 2)
    static let write = Roles(rawValue: 1 << 4)
    static let call = Roles(rawValue: 1 << 5)
    static let implicit = Roles(rawValue: 1 << 8)
    static let childOf = Roles(rawValue: 1 << 9)
    static let overrideOf = Roles(rawValue: 1 << 11)
    static let containedBy = Roles(rawValue: 1 << 16)
  }

  /// The name with its labels, `write(to:options:)`.
  let name: String
  /// The symbol's unified symbol resolution: unique among all modules.
  let usr: String
  let roles: Roles
  /// Both count from 1; columns are bytes.
  let line: Int
  let column: Int
  var relations: [Relation] = []

  struct Relation {
    let roles: Roles
    let name: String
    let usr: String
  }

  /// The function or type in which it is.
  var container: Relation? { relations.first { $0.roles.contains(.containedBy) } }
}
