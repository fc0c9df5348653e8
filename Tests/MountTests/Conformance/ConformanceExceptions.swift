/// What is allowed to differ from the backing file system, each with its reason. An exception that no row needs is a
/// failure too.
struct ConformanceException: Sendable {
  /// How the names of the rows begin.
  let rows: String
  /// What only the mount's outcome has in it.
  let mount: String
  let reason: String

  static let all: [ConformanceException] = []
}
