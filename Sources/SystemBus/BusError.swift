import CSystemd
import SystemPackage

/// Why a call on a message bus failed, for users.
package struct BusError: Error, CustomStringConvertible, Sendable {
  package let description: String

  init(_ description: String) { self.description = description }

  /// An error of a function of sd-bus: a negative error number.
  init(_ what: String, _ result: CInt) { self.init("\(what): \(Errno(rawValue: -result))") }

  /// An error that a service has replied with.
  init(_ what: String, _ result: CInt, _ error: sd_bus_error) {
    if let message = unsafe error.message {
      self.init("\(what): \(unsafe String(cString: message))")
    } else {
      self.init(what, result)
    }
  }
}

/// - Throws: for a negative result of a function of sd-bus, its error.
@discardableResult
func check(_ result: CInt, _ what: @autoclosure () -> String) throws(BusError) -> CInt {
  guard result >= 0 else { throw BusError(what(), result) }
  return result
}
