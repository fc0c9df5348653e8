import Testing

@testable import protectfs

/// What is said of something that was done on several mounts.
struct UserMountsTests {
  @Test func aLockThatHasLostWritesHasTakenEffect() {
    let lost = CommandFailure(.writesLost, "the mount is locked, but its backing store does not answer")
    let failed = CommandFailure(.noAnswer, "the daemon does not answer")
    func summary(_ failures: [Int: CommandFailure]) -> String? {
      UserMounts.summary(of: failures, among: 3, "locked").map { "\($0.status.rawValue): \($0.message)" }
    }
    #expect(summary([:]) == nil)
    #expect(summary([1: lost]) == "26: 3 locked; 1 of them may have lost writes")
    #expect(summary([0: lost, 2: lost]) == "26: 3 locked; 2 of them may have lost writes")
    #expect(summary([2: failed]) == "13: 1 of 3 could not be locked")
    #expect(summary([0: lost, 1: failed]) == "13: 1 of 3 could not be locked")
  }
}
