import CSystemd
import ProtectfsIO
import SystemPackage

/// A connection to a D-Bus message bus, by way of libsystemd (sd-bus(3)). One thread uses it.
///
/// ```swift
/// let bus = try MessageBus.system()
/// try bus.subscribe("type='signal',member='Lock'") { signal in … }
/// while true {
///   while try bus.process() {}
///   _ = try Poll.wait(for: .readable(bus.descriptor))
/// }
/// ```
@safe package final class MessageBus {
  /// How long a reply is waited for, in microseconds.
  private static let patience: UInt64 = 5_000_000

  private let bus: OpaquePointer
  private var subscriptions: [Subscription] = []

  /// The bus of the machine. The environment variable `DBUS_SYSTEM_BUS_ADDRESS` names another, as tests do.
  package static func system() throws(BusError) -> MessageBus {
    try Libsystemd.load()
    var bus: OpaquePointer?
    return try unsafe MessageBus("the system bus", sd.bus_open_system(&bus), bus)
  }

  /// The bus of the user, or of the user's session (`DBUS_SESSION_BUS_ADDRESS`).
  package static func user() throws(BusError) -> MessageBus {
    try Libsystemd.load()
    var bus: OpaquePointer?
    return try unsafe MessageBus("the session bus", sd.bus_open_user(&bus), bus)
  }

  private init(_ name: String, _ result: CInt, _ bus: OpaquePointer?) throws(BusError) {
    try check(result, "\(name) cannot be reached")
    guard let bus = unsafe bus else { throw BusError("\(name) cannot be reached") }
    unsafe self.bus = bus
  }

  deinit {
    close()
    _ = unsafe sd.bus_flush_close_unref(bus)
  }

  /// Readable when there is something for ``process()``.
  package var descriptor: CInt { unsafe sd.bus_get_fd(bus) }

  /// Hands out the signals that have come, and returns when there are no more: whether there were any. A call takes
  /// those from the connection that come before its reply, which is not readable for them any more.
  ///
  /// - Throws: when the connection is lost.
  @discardableResult
  package func process() throws(BusError) -> Bool {
    var wasAny = false
    while try check(unsafe sd.bus_process(bus, nil), "the connection to a message bus is lost") > 0 { wasAny = true }
    return wasAny
  }

  /// Ends all subscriptions. Their closures may hold the connection, which is closed with its last reference.
  package func close() {
    for subscription in subscriptions { subscription.end() }
    subscriptions = []
  }

  /// An argument of a call.
  package enum Argument {
    case string(String), uint32(UInt32), int32(Int32)
    /// An array with nothing in it, of elements of this type.
    case emptyArray(String)
  }

  /// Calls a method that takes strings, and waits for its reply.
  package func call(
    _ service: String, _ path: String, _ interface: String, _ member: String, _ arguments: String...
  ) throws(BusError) -> BusMessage {
    try call(service, path, interface, member, arguments.map { .string($0) })
  }

  /// Calls a method, and waits for its reply.
  package func call(
    _ service: String, _ path: String, _ interface: String, _ member: String, _ arguments: [Argument]
  ) throws(BusError) -> BusMessage {
    let message = try unsafe message(service, path, interface, member, arguments)
    defer { _ = unsafe sd.bus_message_unref(message) }
    var error = unsafe sd_bus_error()
    var reply: OpaquePointer?
    defer { unsafe sd.bus_error_free(&error) }
    let result = unsafe sd.bus_call(bus, message, Self.patience, &error, &reply)
    guard result >= 0, let reply = unsafe reply else {
      throw unsafe BusError("\(member) of \(service)", result, error)
    }
    return unsafe BusMessage(owning: reply)
  }

  /// Calls a method of a service that runs, and has ``process()`` hand out its reply, if it is no error.
  package func ask(
    _ service: String, _ path: String, _ interface: String, _ member: String,
    _ receive: @escaping (borrowing BusMessage) throws(BusError) -> Void
  ) throws(BusError) {
    let message = try unsafe message(service, path, interface, member, [])
    defer { _ = unsafe sd.bus_message_unref(message) }
    try check(unsafe sd.bus_message_set_auto_start(message, 0), "\(member) of \(service)")
    let subscription = Subscription { reply throws(BusError) in if !reply.isError { try receive(reply) } }
    subscriptions.append(subscription)
    try check(
      unsafe sd.bus_call_async(
        bus, &subscription.slot, message, Subscription.callback, subscription.pointer, Self.patience),
      "\(member) of \(service)")
  }

  /// A call, which the caller lets go of.
  private func message(
    _ service: String, _ path: String, _ interface: String, _ member: String, _ arguments: [Argument]
  ) throws(BusError) -> OpaquePointer {
    var message: OpaquePointer?
    try check(
      unsafe sd.bus_message_new_method_call(bus, &message, service, path, interface, member),
      "\(member) of \(service)")
    guard let message = unsafe message else { throw BusError("\(member) of \(service)") }
    for argument in arguments {
      do throws(BusError) {
        try check(unsafe argument.append(to: message), "\(member) of \(service)")
      } catch {
        _ = unsafe sd.bus_message_unref(message)
        throw error
      }
    }
    return unsafe message
  }

  /// Has `receive` called with each message that a rule matches, as long as the bus is there (D-Bus Specification,
  /// "Match Rules"). A message that `receive` does not understand is passed over.
  package func subscribe(
    _ rule: String, _ receive: @escaping (borrowing BusMessage) throws(BusError) -> Void
  ) throws(BusError) {
    let subscription = Subscription(receive)
    subscriptions.append(subscription)
    try check(
      unsafe sd.bus_add_match(bus, &subscription.slot, rule, Subscription.callback, subscription.pointer),
      "signals cannot be subscribed to")
  }

  /// The unique name of the connection that has a name; `nil` if none has.
  package func owner(of name: String) -> String? {
    let bus = "org.freedesktop.DBus"
    return try? call(bus, "/org/freedesktop/DBus", bus, "GetNameOwner", name).string()
  }
}

extension MessageBus.Argument {
  /// - Returns: the result of sd-bus.
  fileprivate func append(to message: OpaquePointer) -> CInt {
    func basic(_ type: Unicode.Scalar, _ value: UnsafeRawPointer) -> CInt {
      unsafe sd.bus_message_append_basic(message, CChar(type.value), value)
    }
    switch self {
    case .string(let text): return unsafe text.withCString { unsafe basic("s", $0) }
    case .uint32(let number): return unsafe withUnsafePointer(to: number) { unsafe basic("u", $0) }
    case .int32(let number): return unsafe withUnsafePointer(to: number) { unsafe basic("i", $0) }
    case .emptyArray(let element):
      let result = unsafe sd.bus_message_open_container(message, CChar(UInt8(ascii: "a")), element)
      return unsafe result < 0 ? result : sd.bus_message_close_container(message)
    }
  }
}

/// What is called for a rule, or for a reply.
@safe private final class Subscription {
  private let receive: (borrowing BusMessage) throws(BusError) -> Void
  var slot: OpaquePointer?

  init(_ receive: @escaping (borrowing BusMessage) throws(BusError) -> Void) { self.receive = receive }

  /// Not owned by who has it: the bus holds the subscription.
  var pointer: UnsafeMutableRawPointer { unsafe Unmanaged.passUnretained(self).toOpaque() }

  static let callback: sd_bus_message_handler_t = { message, subscription, _ in
    guard let message = unsafe sd.bus_message_ref(message), let subscription = unsafe subscription else { return 0 }
    try? unsafe Unmanaged<Subscription>.fromOpaque(subscription).takeUnretainedValue()
      .receive(BusMessage(owning: message))
    return 0
  }

  func end() { unsafe slot = sd.bus_slot_unref(slot) }
}
