import Testing

extension MountTests {
  /// What programs see on the mount is what they see on the file system below it, and what POSIX says.
  @Suite struct ConformanceTests {
    @Test func paths() throws { try run("paths", PathTables.rows) }
    @Test func modes() throws { try run("modes", ModeTables.rows) }
    @Test func owners() throws { try run("owners", OwnerTables.rows) }
    @Test func stickyDirectories() throws { try run("sticky", StickyTables.rows) }
    @Test func names() throws { try run("names", NameTables.rows) }
    @Test func renames() throws { try run("renames", RenameTables.rows) }
    @Test func times() throws { try run("times", TimeTables.rows) }
    @Test func contents() throws { try run("contents", ContentTables.rows) }
    @Test func attributes() throws { try run("attributes", AttributeTables.rows) }

    /// Set-id programs and devices are what the rows are about, so they are not masked by `nosuid` and `nodev`.
    private func run(_ name: String, _ rows: [Row]) throws {
      try Volume.with(["-o", "allow_other,dev,suid"]) { try Table.run(name, rows, in: $0) }
    }
  }
}
