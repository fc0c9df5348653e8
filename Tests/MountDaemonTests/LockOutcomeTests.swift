import ProtectfsPolicy
import Testing

@testable import MountDaemon

/// What a lock reports that has left something undone.
@Suite struct LockOutcomeTests {
  @Test func nothingIsUndone() { #expect(LockOutcome().error == nil) }

  @Test func namesFilesThatAreBeingWritten() throws {
    var outcome = LockOutcome()
    outcome.beingWritten = [LockOutcome.File(inode: 12, fileClass: .complete)]
    let error = try #require(outcome.error)
    #expect(error.code == .writesLost)
    #expect(error.message.contains("a write to each of these files was under way"))
    #expect(error.message.hasSuffix(": inode 12 (class A)") && !error.message.contains("does not answer"))
  }

  /// Both are named if the store does not answer either.
  @Test func namesThemBesideOthers() throws {
    var outcome = LockOutcome()
    outcome.unwritten = [LockOutcome.File(inode: 11, fileClass: .complete)]
    outcome.beingWritten = [LockOutcome.File(inode: 12, fileClass: .complete)]
    let message = try #require(outcome.error).message
    #expect(message.hasPrefix("the mount is locked, but its backing store does not answer; these files may have lost"))
    #expect(message.contains("lost writes: inode 11 (class A); ") && message.hasSuffix(": inode 12 (class A)"))
  }
}
