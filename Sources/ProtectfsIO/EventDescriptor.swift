import CProtectfsIO
import ProtectfsLibc
import SystemPackage

/// A descriptor that is readable while it is raised, for poll(2) (eventfd(2)).
package final class EventDescriptor: Sendable {
  private let descriptor: Descriptor
  package var rawValue: CInt { descriptor.rawValue }

  package init() throws(Errno) {
    let flags = CInt(EFD_CLOEXEC | EFD_NONBLOCK)
    descriptor = Descriptor(owning: try call("eventfd", eventfd(0, flags)))
  }

  package func raise() {
    var one: UInt64 = 1
    // This fails only if it is already raised as often as possible.
    _ = unsafe write(rawValue, &one, MemoryLayout<UInt64>.size)
  }

  package func clear() {
    var count: UInt64 = 0
    // This fails only if it was not raised.
    _ = unsafe read(rawValue, &count, MemoryLayout<UInt64>.size)
  }
}
