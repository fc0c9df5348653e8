import ProtectfsIO

/// The login manager, logind or elogind: the sessions of a user, and the sleep of the machine
/// (org.freedesktop.login1(5)).
package final class LoginManager {
  /// What it has reported.
  package enum Event {
    /// A session of the user is to be locked, or its screen was.
    case locked(session: String)
    /// The machine goes to sleep when nothing inhibits that any more, or at the end of the time for which it can be
    /// inhibited (`InhibitDelayMaxSec=` in logind.conf(5)).
    case willSleep
    /// The machine has woken, or did not go to sleep.
    case didWake
    /// The login manager has begun to run, or runs no more. When it ends, so do all inhibitors.
    case began, ended
  }

  private static let name = "org.freedesktop.login1"
  private static let path = "/org/freedesktop/login1"
  private static let manager = "org.freedesktop.login1.Manager"
  private static let session = "org.freedesktop.login1.Session"
  private static let properties = "org.freedesktop.DBus.Properties"

  private let bus: MessageBus
  private let user: UInt32

  package init(_ bus: MessageBus, user: UInt32) {
    self.bus = bus
    self.user = user
  }

  /// Has `receive` called with what is reported, also by a login manager that is started later.
  package func subscribe(_ receive: @escaping (Event) -> Void) throws(BusError) {
    try subscribe(Self.session, "Lock", "path_namespace='\(Self.path)/session'") { [self] signal throws(BusError) in
      if isOwn(signal.path) { receive(.locked(session: signal.path)) }
    }
    try subscribe(
      Self.properties, "PropertiesChanged", "path_namespace='\(Self.path)/session',arg0='\(Self.session)'"
    ) { [self] signal throws(BusError) in
      _ = try signal.string()
      var isLocked = false
      try signal.forEach("{sv}") { () throws(BusError) in
        try signal.enter("e", "sv") { () throws(BusError) in
          guard try signal.string() == "LockedHint" else { return try signal.skip("v") }
          isLocked = try signal.enter("v", "b") { () throws(BusError) in try signal.bool() }
        }
      }
      if isLocked, isOwn(signal.path) { receive(.locked(session: signal.path)) }
    }
    try subscribe(Self.manager, "PrepareForSleep", "path='\(Self.path)'") { signal throws(BusError) in
      receive(try signal.bool() ? .willSleep : .didWake)
    }
    try bus.subscribe(
      "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='\(Self.name)'"
    ) { signal throws(BusError) in
      guard signal.sender == "org.freedesktop.DBus" else { return }
      try signal.skip("ss")
      receive(try signal.string().isEmpty ? .ended : .began)
    }
  }

  /// Delays each sleep, for a bounded time, until the descriptor that is returned is closed.
  ///
  /// - Parameter reason: shown by `systemd-inhibit --list`.
  package func delaySleep(because reason: String) throws(BusError) -> Descriptor {
    try bus.call(Self.name, Self.path, Self.manager, "Inhibit", "sleep", "protectfs", reason, "delay").descriptor()
  }

  /// The sessions of the user, by their paths, and whether their screens are locked.
  package func sessions() throws(BusError) -> [(path: String, isLocked: Bool)] {
    let reply = try bus.call(Self.name, Self.path, Self.manager, "ListSessions")
    var paths: [String] = []
    try reply.forEach("(susso)") { () throws(BusError) in
      try reply.enter("r", "susso") { () throws(BusError) in
        try reply.skip("s")
        let owner = try reply.uint32()
        try reply.skip("ss")
        let path = try reply.objectPath()
        if owner == user { paths.append(path) }
      }
    }
    return paths.map { path in
      let reply = try? bus.call(Self.name, path, Self.properties, "Get", Self.session, "LockedHint")
      let isLocked = try? reply?.enter("v", "b") { () throws(BusError) in try reply?.bool() }
      return (path, isLocked ?? false)
    }
  }

  private func subscribe(
    _ interface: String, _ member: String, _ rest: String,
    _ receive: @escaping (borrowing BusMessage) throws(BusError) -> Void
  ) throws(BusError) {
    let rule = "type='signal',sender='\(Self.name)',interface='\(interface)',member='\(member)',\(rest)"
    try bus.subscribe(rule) { [bus] signal throws(BusError) in
      // A signal that is addressed to this process alone comes past the bus's own check of the sender.
      if let owner = bus.owner(of: Self.name), owner != signal.sender { return }
      try receive(signal)
    }
  }

  /// Whether a session is the user's. One that cannot be asked about any more counts as such.
  private func isOwn(_ session: String) -> Bool {
    do throws(BusError) {
      let reply = try bus.call(Self.name, session, Self.properties, "Get", Self.session, "User")
      return try reply.enter("v", "(uo)") { () throws(BusError) in
        try reply.enter("r", "uo") { () throws(BusError) in
          let owner = try reply.uint32()
          try reply.skip("o")
          return owner == user
        }
      }
    } catch {
      return true
    }
  }
}
