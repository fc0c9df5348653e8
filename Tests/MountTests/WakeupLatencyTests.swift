import Glibc
import ProtectfsClient
import ProtectfsIO
import SystemPackage
import Testing

private let device: PathName = "/dev/cpu_dma_latency"

extension MountTests {
  /// `-o latency`: processors are kept from deep sleep while requests come fast, whatever they come through.
  @Suite(.serialized, .enabled(if: device.exists && geteuid() == 0, "only root may ask for it"))
  struct WakeupLatencyTests {

    /// The latency that is asked for at present, in microseconds: the shortest that anyone wants.
    private func latency() throws -> Int32 {
      let bytes = try OpenFile(device, O_RDONLY).read(at: 0, count: 4)
      try #require(bytes.count == 4)
      return bytes.reversed().reduce(0) { $0 << 8 | Int32($1) }
    }

    /// Makes requests that come fast, until a condition holds, or for so long. Returns whether it held meanwhile.
    private func burst(on volume: Volume, for time: Duration, until condition: () throws -> Bool) throws -> Bool {
      let end = ContinuousClock.now + time
      var number = 0
      while ContinuousClock.now < end {
        // The kernel remembers names that are not there.
        for _ in 0..<50 {
          number += 1
          _ = volume.path("nothing \(number)").exists
        }
        if try condition() { return true }
      }
      return false
    }

    private func expect(_ choice: String, through transport: RequestTransport, isHeld: Bool) throws {
      try Volume.with(["-o", "allow_other,transport=\(transport.rawValue),latency=\(choice)"]) { volume in
        #expect(try volume.status().transport == transport)
        let usual = try latency()
        try #require(usual > 2, "something else on this machine keeps processors from sleep")
        #expect(try burst(on: volume, for: isHeld ? patience : .seconds(1)) { try latency() <= 2 } == isHeld)
        #expect(try eventually { try latency() == usual })
      }
    }

    @Test(arguments: [("low", true), ("system", false)])
    func isHeldDuringBursts(_ choice: String, _ isHeld: Bool) throws {
      try expect(choice, through: .device, isHeld: isHeld)
    }

    @Test(Setting.isPossible, arguments: [("low", true), ("system", false)])
    func isHeldDuringBurstsThroughRings(_ choice: String, _ isHeld: Bool) throws {
      try Setting.offer.with("Y") { try expect(choice, through: .ioUring, isHeld: isHeld) }
    }
  }
}
