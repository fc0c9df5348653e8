import CSystemd
import ProtectfsIO
import SystemPackage

/// A connection to a D-Bus message bus, by way of libsystemd (sd-bus(3)). One thread uses it.
///
/// ```swift
/// let bus = try MessageBus.system()
/// try bus.subscribe("type='signal',member='Lock'") { signal in … }
/// while true {
///   try bus.process()
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
    var bus: OpaquePointer?
    return try unsafe MessageBus("the system bus", sd_bus_open_system(&bus), bus)
  }

  /// The bus of the user, or of the user's session (`DBUS_SESSION_BUS_ADDRESS`).
  package static func user() throws(BusError) -> MessageBus {
    var bus: OpaquePointer?
    return try unsafe MessageBus("the session bus", sd_bus_open_user(&bus), bus)
  }

  private init(_ name: String, _ result: CInt, _ bus: OpaquePointer?) throws(BusError) {
    try check(result, "\(name) cannot be reached")
    guard let bus = unsafe bus else { throw BusError("\(name) cannot be reached") }
    unsafe self.bus = bus
  }

  deinit {
    for subscription in subscriptions { subscription.end() }
    _ = unsafe sd_bus_flush_close_unref(bus)
  }

  /// Readable when there is something for ``process()``.
  package var descriptor: CInt { unsafe sd_bus_get_fd(bus) }

  /// Hands out the signals that have come, and returns when there are no more.
  ///
  /// - Throws: when the connection is lost.
  package func process() throws(BusError) {
    while try check(unsafe sd_bus_process(bus, nil), "the connection to a message bus is lost") > 0 {}
  }

  /// Calls a method that takes strings, and waits for its reply.
  package func call(
    _ service: String, _ path: String, _ interface: String, _ member: String, _ arguments: String...
  ) throws(BusError) -> BusMessage {
    var message: OpaquePointer?
    defer { _ = unsafe sd_bus_message_unref(message) }
    try check(
      unsafe sd_bus_message_new_method_call(bus, &message, service, path, interface, member), "\(member) of \(service)")
    for argument in arguments {
      try check(
        unsafe argument.withCString { unsafe sd_bus_message_append_basic(message, CChar(UInt8(ascii: "s")), $0) },
        "\(member) of \(service)")
    }
    var error = unsafe sd_bus_error()
    var reply: OpaquePointer?
    defer { unsafe sd_bus_error_free(&error) }
    let result = unsafe sd_bus_call(bus, message, Self.patience, &error, &reply)
    guard result >= 0, let reply = unsafe reply else {
      throw unsafe BusError("\(member) of \(service)", result, error)
    }
    return unsafe BusMessage(owning: reply)
  }

  /// Has `receive` called with each message that a rule matches, as long as the bus is there (D-Bus Specification,
  /// "Match Rules"). A message that `receive` does not understand is passed over.
  package func subscribe(
    _ rule: String, _ receive: @escaping (borrowing BusMessage) throws(BusError) -> Void
  ) throws(BusError) {
    let subscription = Subscription(receive)
    subscriptions.append(subscription)
    try check(
      unsafe sd_bus_add_match(bus, &subscription.slot, rule, Subscription.callback, subscription.pointer),
      "signals cannot be subscribed to")
  }

  /// The unique name of the connection that has a name; `nil` if none has.
  package func owner(of name: String) -> String? {
    let bus = "org.freedesktop.DBus"
    return try? call(bus, "/org/freedesktop/DBus", bus, "GetNameOwner", name).string()
  }
}

/// What is called for a rule.
@safe private final class Subscription {
  private let receive: (borrowing BusMessage) throws(BusError) -> Void
  var slot: OpaquePointer?

  init(_ receive: @escaping (borrowing BusMessage) throws(BusError) -> Void) { self.receive = receive }

  /// Not owned by who has it: the bus holds the subscription.
  var pointer: UnsafeMutableRawPointer { unsafe Unmanaged.passUnretained(self).toOpaque() }

  static let callback: sd_bus_message_handler_t = { message, subscription, _ in
    guard let message = unsafe sd_bus_message_ref(message), let subscription = unsafe subscription else { return 0 }
    try? unsafe Unmanaged<Subscription>.fromOpaque(subscription).takeUnretainedValue()
      .receive(BusMessage(owning: message))
    return 0
  }

  func end() { unsafe slot = sd_bus_slot_unref(slot) }
}
