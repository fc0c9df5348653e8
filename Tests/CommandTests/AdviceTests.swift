import KeyManagement
import MountDaemon
import ProtectfsClient
import StoreFormat
import SystemPackage
import Testing

@testable import protectfs

/// What the command says about errors of the libraries, and what to type.
struct AdviceTests {
  private static let withAdvice: [KeyManagementError] = [
    .keybagMissing, .keybagMalformed(.malformed(record: .keybag, field: "length", problem: "short")), .keybagAltered,
    .effaceableSecretMissing,
    .keyFileMalformed, .noSuchProtector, .severalPasscodes,
  ]

  /// An error that the daemon passes on reads as it would here.
  @Test(arguments: withAdvice) func aDaemonsAnswerReadsTheSame(_ error: KeyManagementError) throws {
    let here = try #require(CommandFailure(error)).message
    let fromDaemon = try #require(CommandFailure(ControlError(error))).message
    #expect(here == fromDaemon)
    #expect(here.contains("'protectfs "), "\(here)")
    #expect(!error.description.contains("'protectfs "), "a library knows no command: \(error.description)")
  }

  @Test func sentences() {
    #expect(
      CommandFailure(KeyManagementError.keybagAltered)?.message
        == "the keybag was altered by someone who lacks its keys, or is damaged; 'protectfs keybag restore' puts the one "
        + "before it, .protectfs/keybag.previous, in its place")
    #expect(
      CommandFailure(KeyManagementError.severalPasscodes)?.message
        == "the store has several passcodes, and this does not say which one is forgotten: remove it with 'protectfs key "
        + "remove', and add another with 'protectfs key add --new-passcode'")
    #expect(
      CommandFailure(StoreError.noStore(path: "/b"))?.message
        == "/b is no store; make one with 'protectfs init /b'")
    #expect(
      CommandFailure(StoreError.inUse(path: "/b"))?.message
        == "/b is in use by another daemon or command; beside it a store can only be mounted with '-o ro'")
    #expect(CommandFailure(KeyManagementError.wrongPasscode)?.message == "the passcode is wrong")
  }
}
