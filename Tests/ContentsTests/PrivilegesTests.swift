import ProtectfsIO
import SystemPackage
import Testing

@testable import Contents

/// What the kernel removes from a file that is written.
@Suite struct PrivilegesTests {
  /// A rekey that fails on its way gives the set-ID bits back too.
  @Test(arguments: [true, false]) func areRestored(afterAFailure fails: Bool) throws {
    let file = try Descriptor.temporary()
    try file.setMode(0o6755)
    var failure: Errno?
    do throws(Errno) {
      try file.keepingPrivileges { () throws(Errno) in
        try file.setMode(0o755)
        if fails { throw .noSpace }
      }
    } catch {
      failure = error
    }
    #expect(failure == (fails ? .noSpace : nil))
    #expect(try file.status().permissions == 0o6755)
  }
}
