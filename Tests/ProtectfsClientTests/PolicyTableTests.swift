import Testing

@testable import ProtectfsPolicy

/// The contract, written by hand: 5 classes × 5 states × 9 operations.
///
/// One letter per operation, in the order open, create, remove, read, write, resize, attribute, rewrapFrom, rewrapTo:
/// `+` allowed, `h` only through a handle that still holds the file's key, `-` EACCES.
private let contract: [(ProtectionClass, LockState, String)] = [
  (.complete, .beforeFirstUnlock, "---------"),
  (.complete, .unlocked, "+++++++++"),
  (.complete, .gracePeriod, "+++++++++"),
  (.complete, .locked, "---------"),
  (.complete, .inactive, "---------"),

  (.completeUnlessOpen, .beforeFirstUnlock, "-++hhh--+"),
  (.completeUnlessOpen, .unlocked, "+++++++++"),
  (.completeUnlessOpen, .gracePeriod, "+++++++++"),
  (.completeUnlessOpen, .locked, "-++hhh--+"),
  (.completeUnlessOpen, .inactive, "-++hhh--+"),

  (.completeUntilFirstUserAuthentication, .beforeFirstUnlock, "---------"),
  (.completeUntilFirstUserAuthentication, .unlocked, "+++++++++"),
  (.completeUntilFirstUserAuthentication, .gracePeriod, "+++++++++"),
  (.completeUntilFirstUserAuthentication, .locked, "+++++++++"),
  (.completeUntilFirstUserAuthentication, .inactive, "+++++++++"),

  (.none, .beforeFirstUnlock, "+++++++++"),
  (.none, .unlocked, "+++++++++"),
  (.none, .gracePeriod, "+++++++++"),
  (.none, .locked, "+++++++++"),
  (.none, .inactive, "+++++++++"),

  (.completeWhenUserInactive, .beforeFirstUnlock, "---------"),
  (.completeWhenUserInactive, .unlocked, "+++++++++"),
  (.completeWhenUserInactive, .gracePeriod, "+++++++++"),
  (.completeWhenUserInactive, .locked, "+++++++++"),
  (.completeWhenUserInactive, .inactive, "---------"),
]

private let operations: [ProtectionPolicy.Operation] = [
  .open, .create, .remove, .read, .write, .resize, .attribute, .rewrapFrom, .rewrapTo,
]

@Suite struct PolicyTableTests {
  private func letter(_ access: ProtectionPolicy.Access) -> Character {
    switch access {
    case .allowed: "+"
    case .ifKeyHeld: "h"
    case .denied: "-"
    }
  }

  @Test func tableIsComplete() {
    #expect(contract.count == ProtectionClass.allCases.count * LockState.allCases.count)
    #expect(Set(contract.map { "\($0.0) \($0.1)" }).count == contract.count)
    #expect(Set(operations) == Set(ProtectionPolicy.Operation.allCases))
  }

  @Test(arguments: contract)
  func policyIsTheContract(_ fileClass: ProtectionClass, _ state: LockState, _ expected: String) {
    let row = operations.map { letter(ProtectionPolicy.access(for: $0, on: fileClass, in: state)) }
    #expect(String(row) == expected)
  }

  @Test func onlyWriteBackIsAcceptedWhileAClassGoes() {
    let row = operations.map { letter(ProtectionPolicy.access(for: $0, with: .revoking)) }
    #expect(String(row) == "----+----")
  }

  @Test(arguments: ProtectionClass.allCases)
  func propertiesOfAClassFollowFromTheTable(_ fileClass: ProtectionClass) {
    let afterFirstUnlock: [LockState] = [.unlocked, .gracePeriod, .locked, .inactive]
    let availability = afterFirstUnlock.map { ProtectionPolicy.keyAvailability(of: fileClass, in: $0) }
    #expect(fileClass.losesKey == availability.contains { $0 != .available })
    #expect(fileClass.hasKeyPair == availability.contains(.publicOnly))
    let locked = ProtectionPolicy.access(for: .read, on: fileClass, in: .locked)
    #expect(fileClass.keepsOpenFiles == (locked == .ifKeyHeld))
    let mounted = ProtectionPolicy.keyAvailability(of: fileClass, in: .beforeFirstUnlock)
    #expect(fileClass.isUnlockedByDevice == (mounted == .available))
  }

  @Test func classesLoseTheirKeysInTwoSteps() {
    #expect(ProtectionPolicy.classesLosingKey(from: .unlocked, to: .locked) == [.complete, .completeUnlessOpen])
    #expect(ProtectionPolicy.classesLosingKey(from: .locked, to: .inactive) == [.completeWhenUserInactive])
  }
}
