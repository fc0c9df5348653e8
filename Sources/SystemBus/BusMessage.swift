import CSystemd
import ProtectfsIO
import SystemPackage

/// A message of a bus. What it carries is read from its beginning on (sd_bus_message_read_basic(3)); where it carries
/// something else, the call throws.
@safe package struct BusMessage: ~Copyable {
  private let message: OpaquePointer

  /// Takes over a message.
  init(owning message: OpaquePointer) { unsafe self.message = message }

  deinit { _ = unsafe sd.bus_message_unref(message) }

  /// The object that has sent a signal.
  package var path: String { unsafe Self.text(sd.bus_message_get_path(message)) }

  /// The unique name of the sender's connection.
  package var sender: String { unsafe Self.text(sd.bus_message_get_sender(message)) }

  private static func text(_ pointer: UnsafePointer<CChar>?) -> String {
    guard let pointer = unsafe pointer else { return "" }
    return unsafe String(cString: pointer)
  }

  /// Whether a service has replied with an error.
  var isError: Bool { unsafe sd.bus_message_is_method_error(message, nil) > 0 }

  // MARK: What it carries

  package func string() throws(BusError) -> String {
    var value: UnsafePointer<CChar>?
    try unsafe read("s", &value)
    return unsafe Self.text(value)
  }

  package func objectPath() throws(BusError) -> String {
    var value: UnsafePointer<CChar>?
    try unsafe read("o", &value)
    return unsafe Self.text(value)
  }

  package func bool() throws(BusError) -> Bool {
    var value: CInt = 0
    try unsafe read("b", &value)
    return value != 0
  }

  package func uint32() throws(BusError) -> UInt32 {
    var value: UInt32 = 0
    try unsafe read("u", &value)
    return value
  }

  /// A descriptor of the receiver's own. The message closes the one that it carries.
  package func descriptor() throws(BusError) -> Descriptor {
    var value: CInt = -1
    try unsafe read("h", &value)
    do throws(Errno) {
      return try Descriptor(duplicating: value)
    } catch {
      throw BusError("a descriptor cannot be received: \(error)")
    }
  }

  /// Passes over values of these types.
  package func skip(_ types: String) throws(BusError) {
    try check(unsafe sd.bus_message_skip(message, types), "a message is not understood")
  }

  /// Calls `body` in a container, such as `"v"` for a variant, `"r"` for a structure or `"e"` for an entry of a
  /// dictionary.
  package func enter<Result>(
    _ container: Unicode.Scalar, _ contents: String, _ body: () throws(BusError) -> Result
  ) throws(BusError) -> Result {
    try check(
      unsafe sd.bus_message_enter_container(message, CChar(container.value), contents), "a message is not understood")
    let result = try body()
    try check(unsafe sd.bus_message_exit_container(message), "a message is not understood")
    return result
  }

  /// Calls `body` for each element of an array, which it reads.
  package func forEach(_ element: String, _ body: () throws(BusError) -> Void) throws(BusError) {
    try enter("a", element) { () throws(BusError) in
      while try check(unsafe sd.bus_message_at_end(message, 0), "a message is not understood") == 0 { try body() }
    }
  }

  private func read(_ type: Unicode.Scalar, _ value: UnsafeMutableRawPointer) throws(BusError) {
    // Zero: there is nothing more.
    guard unsafe sd.bus_message_read_basic(message, CChar(type.value), value) > 0 else {
      throw BusError("a message is not understood")
    }
  }
}
