import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// The daemon ends after each of its calls in each operation: the state found then is old or new.
  @Suite struct InterruptionTests {
    @Test func everyOperationIsOldOrNew() throws {
      try Volume.withFaults { volume, faults in
        for (row, operation) in FaultOperation.some(every: 3).enumerated() {
          let states = try operation.states(at: volume.path("\(row)"))
          var found: [Snapshot] = []
          for number in 1... {
            let directory = volume.path("\(row).\(number)")
            guard let snapshot = try interrupted(operation, at: number, in: directory, volume, faults) else { break }
            let place = "\(operation.name), after call \(number), \(faults.hit ?? "")"
            let isAllowed = operation.allows(snapshot, states)
            #expect(isAllowed, "\(place): \(snapshot.difference(to: states.old))")
            found.append(snapshot)
          }
          #expect(!found.isEmpty, "\(operation.name) makes no call")
          let isDone = found.last == states.new
          #expect(isDone, "\(operation.name): not done after its last call")
        }
      }
    }

    /// Makes the operation with the daemon ending after its `number`th call. Returns the state after the next mount, or
    /// `nil` if the operation has fewer calls.
    private func interrupted(
      _ operation: FaultOperation, at number: Int, in directory: PathName, _ volume: Volume, _ faults: Faults
    ) throws -> Snapshot? {
      try operation.makePlace(directory)
      try volume.finishRekeys()
      let (error, hit) = faults.during(.end, at: number, of: .changes) { () throws(Errno) in
        try operation.run(directory)
      }
      guard hit != nil else {
        #expect(error == nil, "\(operation.name): failed without a failure below")
        return nil
      }
      try #require(volume.waitForDaemon() == .exited(FAULTS_STATUS))
      try volume.mountPoint.unmount(isLazy: true)
      let notes = try volume.notesOfCheck("\(operation.name), after call \(number)")
      #expect(notes.isSubset(of: operation.leftovers), "\(operation.name), after call \(number): \(notes)")
      try volume.mount()
      try volume.unlock(recoveryKey: volume.recoveryKey)
      let snapshot = try Snapshot(of: directory)
      // A program that got success finds the new state, and what was interrupted can be repeated.
      try removeTree(directory)
      return snapshot
    }
  }
}

/// Removes a directory and everything below it, like `rm -r`.
func removeTree(_ directory: PathName) throws(Errno) {
  for name in try directory.names() {
    let path = directory.appending(bytes: Array(name.bytes))
    if try path.status().mode & 0o170000 == 0o040000 { try removeTree(path) } else { try path.unlink() }
  }
  try directory.removeDirectory()
}
