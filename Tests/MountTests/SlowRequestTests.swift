import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// The backing store takes long over one request. For most requests no thread is woken to serve the next one, so this
  /// has to be noticed.
  @Suite struct SlowRequestTests {
    @Test(arguments: [2, 8]) func othersAreServedMeanwhile(_ threads: Int) throws {
      try Volume.withFaults(["-o", "threads=\(threads)"]) { volume, faults in
        let victim = volume.path("victim")
        try victim.write("contents")
        // While the kernel removes a name, it permits no lookup in the directory.
        let elsewhere = volume.path("elsewhere")
        try elsewhere.makeDirectory()
        faults.settle()
        faults.arm(.stall, at: 1, of: .changes)
        let removal = Thread(name: "removal") { try? victim.unlink() }
        // Long enough for all waiting threads to fall asleep.
        usleep(100_000)
        var slowest: Int64 = 0
        for number in 0..<30 {
          let start = MonotonicClock.nanoseconds
          #expect(throws: Errno.noSuchFileOrDirectory) { try elsewhere.appending("\(number)").status() }
          slowest = max(slowest, MonotonicClock.nanoseconds - start)
          usleep(20_000)
        }
        removal.join()
        #expect(faults.hit != nil, "nothing was slow")
        faults.disarm()
        #expect(slowest < 200_000_000, "a lookup took \(slowest / 1_000_000) ms")
        #expect(throws: Errno.noSuchFileOrDirectory) { try victim.status() }
      }
    }
  }
}
