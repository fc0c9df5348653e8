import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

// An interrupted restore, and the next one.
extension MountTests.RestoreTests {
  /// Ended after each call that changes something, and run again.
  @Test func killedAnywhereItGoesOn() throws {
    try withErasures { volume, source, faults in
      for number in Faults.places {
        try volume.erase(.standard)
        // Some are missing, too.
        try volume.path("d/e/2").unlink()
        try volume.shell("rm -r d/closed link")
        faults.arm(.end, at: number, of: .changes)
        let result = try volume.restore(from: source.path, environment: faults.environment)
        faults.disarm()
        guard result.ending == .exited(FAULTS_STATUS) else {
          #expect(result.succeeded, "\(result.output)")
          break
        }
        try source.expectNothingPartial("call \(number), \(faults.hit ?? "")")
        let again = try volume.restore(from: source.path)
        #expect(again.succeeded, "after call \(number), \(faults.hit ?? ""): \(again.output)")
        try source.expectRestored("after call \(number), \(faults.hit ?? "")")
      }
    }
  }

  @Test func killedAtRandomItGoesOn() throws {
    try withErasures { volume, source, _ in
      for turn in 0..<8 as Range<UInt32> {
        try volume.erase(.standard)
        for number in 0..<4 as Range<UInt32> {
          let program = try Program(
            [Command.path, "restore", "--from", source.path.description, volume.mountPoint.description],
            output: volume.directory.appending("output"))
          // From 5 to 120 ms, in no order.
          usleep(5000 + (turn * 4 + number) * 7 % 32 * 3700)
          program.send(SIGKILL)
          _ = program.wait()
          try source.expectNothingPartial("killed")
        }
        #expect(try volume.restore(from: source.path).succeeded)
        try source.expectRestored("after being killed")
      }
    }
  }

  /// A lock in the middle stops it. What it has written until then is complete.
  @Test func aLockStopsIt() throws {
    try Volume.with(defaultClass: .complete) { volume in
      let source = volume.directory.appending("source")
      try source.makeDirectory()
      for number in 0..<8 { try source.appending("\(number)").write(pattern(number, count: 3_000_000)) }
      var endings: [Program.Ending] = []
      for turn in 0..<5 {
        let program = try Program(
          [Command.path, "restore", "--from", source.description, volume.mountPoint.description],
          output: volume.directory.appending("output"))
        usleep(UInt32(100_000 * turn + 50_000))
        try volume.lock()
        endings.append(program.wait())
        #expect([.exited(12), .exited(0)].contains(endings.last), "\(program.output)")
        try volume.unlock()
        for name in try volume.mountPoint.names() where !name.description.hasSuffix(".protectfs-new") {
          let isWhole =
            try volume.mountPoint.appending(bytes: Array(name.bytes)).contents()
            == source.appending(bytes: Array(name.bytes)).contents()
          #expect(isWhole, "\(name)")
        }
      }
      #expect(endings.contains(.exited(12)), "\(endings)")
      #expect(try volume.restore(from: source).succeeded)
      #expect(try volume.mountPoint.names() == source.names())
    }
  }

  /// A volume whose class C is erased repeatedly, and a small tree to restore it from.
  private func withErasures(_ body: (Volume, SourceTree, Faults) throws -> Void) throws {
    try Volume.store { volume in
      try volume.mount()
      try volume.unlock()
      // Read in full, and compared, hundreds of times.
      let source = try SourceTree(beside: volume, stride: 100_000)
      try volume.shell("rm -r n* d/null d/fifo d/sticky d/e/1 d/m* empty d/dangling", in: "source")
      #expect(try volume.restore(from: source.path).succeeded)
      try body(volume, source, try Faults(of: volume, in: volume.mountPoint))
    }
  }
}
