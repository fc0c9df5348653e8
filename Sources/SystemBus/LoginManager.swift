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
    try ownSessions().map { path in
      let isLocked = try? property("LockedHint", of: path, "b") { value throws(BusError) in try value.bool() }
      return (path, isLocked ?? false)
    }
  }

  /// Whether one of the user's sessions is of class `user` and has not ended: at a screen, at a terminal, over the
  /// network. A greeter, a job of cron and a manager of services have sessions of other classes, or none.
  package func hasUserSession(among sessions: [String]) throws(BusError) -> Bool {
    for session in sessions {
      do throws(BusError) {
        if try isUserSession(session) { return true }
      } catch {
        // One that has gone meanwhile cannot be asked about.
        if try ownSessions().contains(session) { throw error }
      }
    }
    return false
  }

  private func isUserSession(_ session: String) throws(BusError) -> Bool {
    let name = try property("Class", of: session, "s") { value throws(BusError) in try value.string() }
    guard name == "user" || name.hasPrefix("user-") else { return false }
    // What a session has left running does not make it last.
    return try property("State", of: session, "s") { value throws(BusError) in try value.string() } != "closing"
  }

  /// The paths of the user's sessions.
  package func ownSessions() throws(BusError) -> [String] {
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
    return paths
  }

  /// Reads a property of a session, which has values of one type.
  private func property<Value>(
    _ name: String, of session: String, _ type: String, _ read: (borrowing BusMessage) throws(BusError) -> Value
  ) throws(BusError) -> Value {
    let reply = try bus.call(Self.name, session, Self.properties, "Get", Self.session, name)
    return try reply.enter("v", type) { () throws(BusError) in try read(reply) }
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
      return try property("User", of: session, "(uo)") { value throws(BusError) in
        try value.enter("r", "uo") { () throws(BusError) in
          let owner = try value.uint32()
          try value.skip("o")
          return owner == user
        }
      }
    } catch {
      return true
    }
  }
}
