import CSystemCalls
import Glibc
import LinuxIO
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// Each call on the backing store fails once, in each operation: the caller is told, nothing is lost, and work goes on.
  @Suite struct FaultErrorTests {
    /// An error of the backing store, and the calls it may come from.
    struct Fault: Sendable, CustomTestStringConvertible {
      let error: Errno
      let kinds: Faults.Kinds

      var testDescription: String { "\(error)" }
    }

    static let faults = [
      Fault(error: .noSpace, kinds: .changes), Fault(error: .diskQuotaExceeded, kinds: .changes),
      Fault(error: .ioError, kinds: [.changes, .reads]),
    ]

    @Test(arguments: faults) func everyCallFailsOnce(_ fault: Fault) throws {
      try Volume.withFaults { volume, faults in
        for (row, operation) in FaultOperation.all.enumerated() {
          let states = try operation.states(at: volume.path("\(row)"))
          for number in 1... {
            let run = Run(
              operation: operation, states: states, directory: volume.path("\(row).\(number)"), volume: volume)
            guard try run.fails(faults.during, .fail(fault.error), fault.error, at: number, of: fault.kinds) else { break }
          }
        }
        try volume.expectSameAfterRemount()
      }
    }

    /// Half of what is to be written fits, then nothing more.
    @Test func everyWriteFallsShort() throws {
      try Volume.withFaults { volume, faults in
        for (row, operation) in FaultOperation.all.enumerated() {
          let states = try operation.states(at: volume.path("\(row)"))
          for number in 1... {
            let run = Run(
              operation: operation, states: states, directory: volume.path("\(row).\(number)"), volume: volume)
            guard try run.fails(faults.during, .fallShort(.noSpace), .noSpace, at: number, of: .writes) else { break }
          }
        }
        try volume.expectSameAfterRemount()
      }
    }

    /// From a call on all fail, as on a disk that is full or gone, until it is back.
    @Test(arguments: [faults[0], faults[2]]) func everyCallFailsFromOneOn(_ fault: Fault) throws {
      try Volume.withFaults { volume, faults in
        for (row, operation) in FaultOperation.all.enumerated() {
          let states = try operation.states(at: volume.path("\(row)"))
          for number in 1... {
            let run = Run(
              operation: operation, states: states, directory: volume.path("\(row).\(number)"), volume: volume,
              isLasting: true)
            guard try run.fails(faults.during, .failOn(fault.error), fault.error, at: number, of: fault.kinds) else {
              break
            }
          }
        }
        try volume.expectSameAfterRemount()
      }
    }

    /// One failure in one operation.
    struct Run {
      let operation: FaultOperation
      let states: FaultOperation.States
      let directory: PathName
      let volume: Volume
      /// More than one call fails.
      var isLasting = false

      typealias During = (Faults.Action, Int, Faults.Kinds, () throws(Errno) -> Void) -> (error: Errno?, hit: String?)

      /// Does the operation with its `number`th call failing; `false` when it has fewer calls.
      func fails(
        _ during: During, _ action: Faults.Action, _ expected: Errno, at number: Int, of kinds: Faults.Kinds
      ) throws -> Bool {
        try operation.makePlace(directory)
        let (error, hit) = during(action, number, kinds) { () throws(Errno) in try operation.run(directory) }
        guard let hit else {
          #expect(error == nil, "\(operation.name): failed without a failure below")
          #expect(try Snapshot(of: directory) == states.new, "\(operation.name)")
          return false
        }
        let place = "\(operation.name), \(hit), call \(number), \(expected)"
        let found = try Snapshot(of: directory)
        if let error {
          // A write that was accepted in part says so.
          #expect(error == expected || error == .partialWrite, "\(place): the caller was told \(error)")
          #expect(operation.allows(found, states), "\(place): \(found.difference(to: states.old))")
          try expectLengths(place)
          let again = failure { () throws(Errno) in try operation.run(directory) }
          #expect(again == nil, "\(place): again")
        } else {
          #expect(isLasting || operation.passedOver.contains(hit), "\(place): the caller was told nothing")
        }
        let after = try Snapshot(of: directory)
        #expect(after == states.new, "\(place): afterwards \(after.difference(to: states.new))")
        return true
      }

      /// The kernel's lengths are those on disk.
      private func expectLengths(_ place: String) throws {
        let backing = try volume.backing.child(directory.status().inode)
        for name in try directory.names() {
          let status = try directory.appending(bytes: Array(name.bytes)).status()
          guard status.mode & 0o170000 == 0o100000 else { continue }
          let length = ContentLength.plaintext(for: try backing.child(status.inode).status().size)
          #expect(length == status.size, "\(place): \(name) has another length on disk")
        }
      }
    }
  }
}

extension PathName {
  /// The path of what has an inode number in this directory.
  func child(_ inode: UInt64) throws(Errno) -> PathName {
    for name in try names() {
      let path = appending(bytes: Array(name.bytes))
      if try path.status().inode == inode { return path }
    }
    throw .noSuchFileOrDirectory
  }
}

extension Volume {
  /// What the kernel shows is what is on disk.
  func expectSameAfterRemount(sourceLocation: SourceLocation = #_sourceLocation) throws {
    let before = try Snapshot(of: mountPoint)
    try unmount()
    #expect(try notesOfCheck("after the errors").isEmpty, sourceLocation: sourceLocation)
    try mount()
    try unlock()
    let after = try Snapshot(of: mountPoint)
    #expect(after == before, "\(after.difference(to: before))", sourceLocation: sourceLocation)
  }
}
