import Synchronization
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
  /// Whether power comes from a battery is asked for this often at most, in nanoseconds.
  private static let powerInterval: Int64 = 10_000_000_000
  private let sparesBattery: Bool
  private let nextLook = Atomic<Int64>(0)
  private let isOnBattery = Atomic(false)

  /// Whether this is a virtual machine: the processor says so. Not known on other architectures than x86.
  package static var isGuest: Bool {
    guard let file = try? Descriptor.open("/proc/cpuinfo", [.readOnly]),
      let text = try? file.readAll(limit: 1 << 16)
    else { return false }
    let flags = String(decoding: text, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("flags") }
    return flags?.split(separator: " ").contains("hypervisor") ?? false
  }

  /// `unlessOnBattery`: no request is made while power comes from a battery.
  ///
  /// Throws `EACCES` for users other than root, `ENOENT` if the kernel has no such device.
  package init(unlessOnBattery: Bool = false) throws(Errno) {
    sparesBattery = unlessOnBattery
    file = try Descriptor.open("/dev/cpu_dma_latency", [.writeOnly])
    try file.write(Self.none)
    let driver = try? Descriptor.open("/sys/devices/system/cpu/cpuidle/current_driver", [.readOnly]).readAll(limit: 64)
    bound = driver.map { $0.starts(with: "haltpoll".utf8) } == true ? Self.guestBound : Self.nativeBound
  }

  /// Makes or withdraws the request.
  package func hold(_ isHeld: Bool) {
    // The kernel accepts any number here. A failure would only cost speed.
    try? file.write(isHeld && !runsOnBattery ? bound : Self.none)
  }

  private var runsOnBattery: Bool {
    guard sparesBattery else { return false }
    let now = MonotonicClock.nanoseconds
    if now >= nextLook.load(ordering: .relaxed) {
      nextLook.store(now + Self.powerInterval, ordering: .relaxed)
      isOnBattery.store(PowerSupply.isBattery(), ordering: .relaxed)
    }
    return isOnBattery.load(ordering: .relaxed)
  }
}

extension Descriptor {
  fileprivate func write(_ number: Int32) throws(Errno) {
    try write(unsafe withUnsafeBytes(of: number) { unsafe Array($0) })
  }
}
