import SystemPackage

/// A request that no processor sleep so deeply that waking it takes long: `/dev/cpu_dma_latency`
/// (Documentation/power/pm_qos_interface.rst in the kernel's sources). It holds for the whole machine until it is withdrawn,
/// or the process ends, so it is for moments in which threads wait for each other all the time. Only root may make it.
package final class WakeupLatency: Sendable {
  /// Microseconds. With 2 processors halt, but no more. A guest's processor is given back to the hypervisor when it halts, and
  /// its idle driver, haltpoll, refrains from that at 0 only.
  private static let nativeBound: Int32 = 2
  private static let guestBound: Int32 = 0
  /// `PM_QOS_DEFAULT_VALUE`: no request.
  private static let none: Int32 = -1

  private let file: Descriptor
  private let bound: Int32

  /// Throws `EACCES` for anyone but root, `ENOENT` where the kernel has no such device.
  package init() throws(Errno) {
    file = try Descriptor.open("/dev/cpu_dma_latency", [.writeOnly])
    try file.write(Self.none)
    let driver = try? Descriptor.open("/sys/devices/system/cpu/cpuidle/current_driver", [.readOnly]).readAll(limit: 64)
    bound = driver.map { $0.starts(with: "haltpoll".utf8) } == true ? Self.guestBound : Self.nativeBound
  }

  /// Makes the request, or withdraws it.
  package func hold(_ isHeld: Bool) {
    // The kernel takes any number here; it cannot fail, and if it did it would cost speed only.
    try? file.write(isHeld ? bound : Self.none)
  }
}

extension Descriptor {
  fileprivate func write(_ number: Int32) throws(Errno) {
    try write(unsafe withUnsafeBytes(of: number) { unsafe Array($0) })
  }
}
