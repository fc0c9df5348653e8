import Testing

extension MountTests {
  /// What programs see on the mount is what they see on the file system below it, and what POSIX says.
  @Suite struct ConformanceTests {
    static let tables: [(name: String, rows: @Sendable () -> [Row])] = [
      ("paths", { PathTables.rows }), ("modes", { ModeTables.rows }), ("owners", { OwnerTables.rows }),
      ("sticky", { StickyTables.rows }), ("names", { NameTables.rows }), ("renames", { RenameTables.rows }),
    ]

    @Test(arguments: tables.map(\.name)) func table(name: String) throws {
      let rows = try #require(Self.tables.first { $0.name == name }).rows()
      try Volume.with(["-o", "allow_other,dev,suid"]) { try Table.run(name, rows, in: $0) }
    }
  }
}
