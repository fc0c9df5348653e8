import Contract
import ProtectfsPolicy
import Testing

extension MountTests {
  /// The contract through the kernel, with its page cache and mappings. `FileSystemTests` has the rest of it.
  @Suite struct ContractTests {
    /// With descriptors and a mapping of each file open since before the lock.
    @Test(arguments: ContractTable.states)
    func holds(in state: LockState) throws { try run(in: state, withOpenFiles: true) }

    /// With none, where the kernel has the files' attributes and had their pages.
    @Test func holdsForClosedFilesWhileLocked() throws { try run(in: .locked, withOpenFiles: false) }

    private func run(in state: LockState, withOpenFiles: Bool) throws {
      try Volume.with(["-o", "allow_other,inactive=\(state == .inactive ? 0.2 : 600)"]) { volume in
        let root = CallPath(SystemCalls(), volume.mountPoint)
        var run = try ContractRun(ContractTable.rows, in: root, newOwner: (1234, 5678))
        if state == .beforeFirstUnlock { try volume.remount() }
        try run.openFiles(all: withOpenFiles, beforeFirstUnlock: state == .beforeFirstUnlock, mapping: true)
        try volume.enter(state)
        var findings = run.perform(in: state, withOpenFiles: withOpenFiles)
        #expect(try volume.status().state == state)
        try volume.unlock()
        #expect(run.check(&findings) > 0 || state == .unlocked || state == .gracePeriod)
        for difference in findings.differences { Issue.record("\(difference)") }
      }
    }
  }
}

extension Volume {
  /// Brings an unlocked mount into a state, or leaves one before its first unlock in it.
  func enter(_ state: LockState) throws {
    switch state {
    case .beforeFirstUnlock, .unlocked: break
    case .gracePeriod: try announceLock(gracePeriod: .seconds(600))
    case .locked: try lock()
    case .inactive:
      try lock()
      try wait(for: .inactive)
    }
  }
}
