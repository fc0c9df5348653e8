import CSystemCalls
import Glibc
import ProtectfsIO
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// Each call on the backing store fails once while the kernel writes its pages back: the caller gets the error,
  /// nothing is lost, and work continues. What does not depend on the kernel is tried on a simulated disk
  /// (`FileFaultTests`).
  @Suite struct FaultErrorTests {
    /// An error of the backing store, and the calls that may fail with it.
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
      try failAll(.fail(fault.error), fault)
    }

    /// Half of a write fits, then nothing more.
    @Test func everyWriteFallsShort() throws {
      try failAll(.fallShort(.noSpace), Fault(error: .noSpace, kinds: .writes))
    }

    /// A full disk: from some call on, all calls that need room fail, until there is room.
    @Test func thereIsNoRoomFromACallOn() throws {
      try failAll(.failOn(.noSpace), Fault(error: .noSpace, kinds: .room), isLasting: true)
    }

    private func failAll(_ action: Faults.Action, _ fault: Fault, isLasting: Bool = false) throws {
      try Volume.withFaults { volume, faults in
        for (row, operation) in FaultOperation.all.enumerated() {
          let place = volume.path("\(row)")
          try place.makeDirectory()
          let states = try operation.states(at: place.appending("states"))
          for number in 1... {
            let run = Run(
              operation: operation, states: states, directory: place.appending("\(number)"), volume: volume,
              isLasting: isLasting)
            guard try run.fails(faults.during, action, fault.error, at: number, of: fault.kinds) else { break }
          }
        }
        try volume.finishRekeys()
        try volume.expectSameAfterRemount()
      }
    }

    /// The disk fails in the middle of a write and then recovers. Meanwhile not even the length could be corrected.
    @Test func aLengthIsPutRightLater() throws {
      try Volume.withFaults { volume, faults in
        let path = volume.path("file")
        try path.write(pattern(1, count: 100))
        let file = try OpenFile(path, O_RDWR | OpenFile.direct)
        let (error, hit) = faults.during(.failOn(.ioError), at: 2, of: .changes) { () throws(Errno) in
          try file.write(pattern(2, count: 30_000), at: 50)
        }
        #expect(error == .ioError && hit == "pwrite")
        try file.write([7], at: 99)
        #expect(try path.status().size == 100)
        volume.kill()
        try volume.mountPoint.unmount(isLazy: true)
        try volume.mount()
        try volume.unlock()
        #expect(try path.contents().count == 100 && path.contents().last == 7)
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

      /// Makes the operation with its `number`th call failing; `false` if it has fewer calls.
      func fails(
        _ during: During, _ action: Faults.Action, _ expected: Errno, at number: Int, of kinds: Faults.Kinds
      ) throws -> Bool {
        try operation.makePlace(directory)
        try volume.finishRekeys()
        let (error, hit) = during(action, number, kinds) { () throws(Errno) in try operation.run(directory) }
        guard let hit else {
          #expect(error == nil, "\(operation.name): failed without a failure below")
          let isNew = try Snapshot(of: directory) == states.new
          #expect(isNew, "\(operation.name)")
          return false
        }
        try volume.finishRekeys()
        let place = "\(operation.name), \(hit), call \(number), \(expected)"
        do throws(Errno) { try expectSoundness(error, hit, expected, place) } catch {
          Issue.record("\(place): \(error) when it was looked at")
        }
        return true
      }

      private func expectSoundness(_ error: Errno?, _ hit: String, _ expected: Errno, _ place: String) throws(Errno) {
        try takeLateErrors(directory)
        if let error {
          #expect(error == expected, "\(place): the caller was told \(error)")
          let found = try Snapshot(of: directory)
          let isAllowed = states.allow(found)
          #expect(isAllowed, "\(place): \(found.difference(to: states.old))")
          let again = failure { () throws(Errno) in try operation.run(directory) }
          #expect(again == nil, "\(place): again")
        } else {
          let isPassedOver = isLasting || Self.behindTheCaller.contains(hit)
          #expect(isPassedOver, "\(place): the caller was told nothing")
        }
        let after = try Snapshot(of: directory)
        let isNew = after == states.new
        #expect(isNew, "\(place): afterwards \(after.difference(to: states.new))")
      }

      /// The daemon's calls that the caller does not wait for. An error in writing a file's times back is kept for the
      /// next close.
      private static let behindTheCaller: Set = [
        "openat", "statx", "utimensat", "getxattr", "fgetxattr of capabilities",
      ]

      private func takeLateErrors(_ directory: PathName) throws(Errno) {
        for name in try directory.names() {
          let path = directory.appending(bytes: Array(name.bytes))
          switch try path.status().mode & 0o170000 {
          case 0o100000: _ = try OpenFile(path, O_RDONLY)
          case 0o040000: try takeLateErrors(path)
          default: break
          }
        }
      }
    }
  }
}

extension Volume {
  /// The kernel shows what is on disk.
  func expectSameAfterRemount(sourceLocation: SourceLocation = #_sourceLocation) throws {
    let before = try Snapshot(of: mountPoint)
    try unmount()
    let notes = try notesOfCheck("after the errors")
    #expect(notes.isEmpty, "\(notes)", sourceLocation: sourceLocation)
    try mount()
    try unlock()
    let after = try Snapshot(of: mountPoint)
    let isSame = after == before
    #expect(isSame, "\(after.difference(to: before))", sourceLocation: sourceLocation)
  }
}
