import SystemPackage

/// A request to the kernel that no processor enters a sleep state that takes long to leave: `/dev/cpu_dma_latency`
/// (Documentation/power/pm_qos_interface.rst in the kernel's sources). It applies to the whole machine until it is
/// withdrawn or the process ends, so it is for moments in which threads wait for each other all the time. Only root may
/// make it.
package final class WakeupLatency: Sendable {
  /// Microseconds. With 2, processors halt but do not sleep more deeply. The processor of a guest is returned to the
  /// hypervisor when it halts, and its idle driver, haltpoll, avoids that only at 0.
  private static let nativeBound: Int32 = 2
  private static let guestBound: Int32 = 0
  /// `PM_QOS_DEFAULT_VALUE`: no request.
  private static let none: Int32 = -1

  private let file: Descriptor
  private let bound: Int32

  /// Throws `EACCES` for users other than root, `ENOENT` if the kernel has no such device.
  package init() throws(Errno) {
    file = try Descriptor.open("/dev/cpu_dma_latency", [.writeOnly])
    try file.write(Self.none)
    let driver = try? Descriptor.open("/sys/devices/system/cpu/cpuidle/current_driver", [.readOnly]).readAll(limit: 64)
    bound = driver.map { $0.starts(with: "haltpoll".utf8) } == true ? Self.guestBound : Self.nativeBound
  }

  /// Makes or withdraws the request.
  package func hold(_ isHeld: Bool) {
    // The kernel accepts any number here. A failure would only cost speed.
    try? file.write(isHeld ? bound : Self.none)
  }
}

extension Descriptor {
  fileprivate func write(_ number: Int32) throws(Errno) {
    try write(unsafe withUnsafeBytes(of: number) { unsafe Array($0) })
  }
}
