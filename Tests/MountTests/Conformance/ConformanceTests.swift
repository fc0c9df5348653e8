import Testing

extension MountTests {
  /// What programs see on the mount is what they see on the file system below it, and what POSIX says.
  @Suite struct ConformanceTests {
    @Test func modes() throws {
      try Volume.with { try Table.run("chmod", ModeTables.chmod, in: $0) }
    }
  }
}
