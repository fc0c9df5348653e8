import Contract
import Glibc
import ProtectfsPolicy
import SystemPackage
import Testing

/// The contract: every operation on a file of every class, in every state. What goes through a mapping is for a mount,
/// whose suite of this name runs the table once more.
@Suite struct ContractTests {
  @Test func everyOperationIsInTheTableOnce() {
    let names = ContractTable.rows.map(\.operation)
    #expect(Set(names) == Set(ContractOperation.all.keys))
    #expect(names.count == Set(names).count)
    for row in ContractTable.rows {
      #expect(row.answers.count == 5 && row.answers.allSatisfy { $0.count == 5 }, "\(row.operation)")
    }
  }

  /// Once with a descriptor of each file open since before the lock, once with none: what the daemon still holds must
  /// not open a file to others.
  @Test(arguments: ContractTable.states, [true, false])
  func holds(in state: LockState, withOpenFiles: Bool) throws {
    try InProcessStore.with {
      $0.inactivityPeriod = state == .inactive ? .zero : .seconds(600)
    } _: { store in
      let isRoot = geteuid() == 0
      var run = try ContractRun(
        ContractTable.rows.filter { !$0.operation.contains("mapping") }, in: CallPath(store, ""),
        newOwner: isRoot ? (1234, 5678) : (geteuid(), getegid()))
      if state == .beforeFirstUnlock { try store.restart() }
      try run.openFiles(all: withOpenFiles, beforeFirstUnlock: state == .beforeFirstUnlock, mapping: false)
      if state != .beforeFirstUnlock { try store.enter(state) }
      var findings = run.perform(in: state, withOpenFiles: withOpenFiles)
      #expect(store.state == state)
      try store.unlock()
      let refuses = state != .unlocked && state != .gracePeriod
      #expect((run.check(&findings) > 0) == refuses)
      for difference in findings.differences { Issue.record("\(difference)") }
    }
  }
}
