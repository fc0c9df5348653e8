import Testing

extension MountTests {
  /// What the PAM module does in a program in which users log in; `scripts/container/login.sh` logs in.
  @Suite struct PAMModuleTests {
    @Test(arguments: ["children", "secret", "text", "standard"])
    func disturbsNoProgram(_ part: String) throws {
      let result = try Program.run([Command.beside("PAMProbe"), part])
      #expect(result.succeeded, "\(result.output)")
    }
  }
}
