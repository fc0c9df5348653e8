import Glibc
import ProtectfsIO
import SystemPackage
import Testing

/// A message bus of a test's own, the system's and the session's in one, with a logind that does what it is told to
/// (python3-dbusmock). It has a session `own` of this user, and a session `other` of somebody else.
final class LoginBus {
  /// Packages are the system's Python's, whatever else is on the path.
  static let isInstalled: Bool = {
    guard Program.isInstalled("dbus-daemon") else { return false }
    return (try? Program.run(["/usr/bin/python3", "-c", "import dbus, dbusmock, gi"]))?.succeeded ?? false
  }()

  private let directory: PathName
  private var daemon: Program
  private var logind: Program
  /// Services of a session.
  private var services: [Program] = []

  private var address: String { "unix:path=\(directory.appending("bus"))" }

  /// What names the bus for programs.
  var environment: [String: String] { ["DBUS_SYSTEM_BUS_ADDRESS": address, "DBUS_SESSION_BUS_ADDRESS": address] }

  init(in directory: PathName) throws {
    self.directory = directory
    let address = "unix:path=\(directory.appending("bus"))"
    daemon = try Self.startDaemon(address, directory)
    logind = try Self.startLogind(address, directory)
    try addSessions()
  }

  deinit {
    for program in services + [logind, daemon] {
      program.send(SIGTERM)
      _ = program.wait(seconds: 5)
    }
  }

  private static func startDaemon(_ address: String, _ directory: PathName) throws -> Program {
    let daemon = try Program(
      ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--address=\(address)"],
      output: directory.appending("log.bus"))
    eventually { directory.appending("bus").exists }
    return daemon
  }

  private static func startLogind(_ address: String, _ directory: PathName) throws -> Program {
    try Program(
      ["/usr/bin/python3", "-m", "dbusmock", "--template", "logind"],
      environment: ["DBUS_SYSTEM_BUS_ADDRESS": address, "DBUS_SESSION_BUS_ADDRESS": address],
      output: directory.appending("log.logind"))
  }

  private func addSessions() throws {
    for (name, user) in [("own", getuid()), ("other", getuid() + 4242)] {
      try run("mock.AddSession('\(name)', 'seat0', dbus.UInt32(\(user)), 'user', True)")
    }
  }

  /// Ends logind; all that inhibited sleep does so no more.
  func endLogind() {
    logind.send(SIGTERM)
    _ = logind.wait(seconds: 5)
  }

  /// Starts logind again.
  func restartLogind() throws {
    endLogind()
    logind = try Self.startLogind(address, directory)
    try addSessions()
  }

  /// Ends the bus, and all that is on it, and starts it and logind again.
  func restart() throws {
    daemon.send(SIGKILL)
    _ = daemon.wait(seconds: 5)
    try directory.appending("bus").unlink()
    daemon = try Self.startDaemon(address, directory)
    try restartLogind()
  }

  /// Starts a screen saver with one of its names, which is active or not.
  func startScreenSaver(_ name: String, isActive: Bool) throws {
    let path = "/" + name.split(separator: ".").joined(separator: "/")
    services.append(
      try Program(
        ["/usr/bin/python3", "-m", "dbusmock", name, path, name], environment: environment,
        output: directory.appending("log.\(name)")))
    try run(
      """
      while not bus.name_has_owner('\(name)'): time.sleep(0.01)
      saver = dbus.Interface(bus.get_object('\(name)', '\(path)'), 'org.freedesktop.DBus.Mock')
      saver.AddMethod('', 'GetActive', '', 'b', 'ret = \(isActive ? "True" : "False")')
      """)
  }

  /// Starts a desktop that shows notifications. What it prints names them.
  func startDesktop() throws -> Program {
    let desktop = try Program(
      ["/usr/bin/python3", "-m", "dbusmock", "--template", "notification_daemon"], environment: environment,
      output: directory.appending("log.desktop"))
    services.append(desktop)
    try run("while not bus.name_has_owner('org.freedesktop.Notifications'): time.sleep(0.01)")
    return desktop
  }

  /// Runs Python with `logind`, its `mock`, the sessions `own` and `other`, and `signal(path, interface, name, value,
  /// to)`, which is sent by a stranger; returns what it prints.
  @discardableResult
  func run(_ statement: String) throws -> String {
    let prelude = """
      import dbus, dbus.bus, dbus.lowlevel, sys, time
      bus = dbus.bus.BusConnection(sys.argv[1])
      name, path = "org.freedesktop.login1", "/org/freedesktop/login1"
      for _ in range(6000):
          if bus.name_has_owner(name): break
          time.sleep(0.01)
      def proxy(end, interface): return dbus.Interface(bus.get_object(name, path + end, introspect=False), interface)
      logind, mock = proxy("", name + ".Manager"), proxy("", "org.freedesktop.DBus.Mock")
      own, other = (proxy("/session/" + each, name + ".Session") for each in ("own", "other"))
      def signal(path, interface, name, value, to=None):
          message = dbus.lowlevel.SignalMessage(path, interface, name)
          if to: message.set_destination(to)
          message.append(value)
          bus.send_message(message)
          bus.flush()
      def sleep(begins): mock.EmitSignal(name + ".Manager", "PrepareForSleep", "b", [begins])

      """
    let result = try Program.run(["/usr/bin/python3", "-c", prelude + statement, address])
    try #require(result.succeeded, "\(result.output)")
    return result.output
  }

  /// Whether the agent delays sleep.
  func isSleepDelayed() throws -> Bool {
    try run("print(any(each[:2] == ('sleep', 'protectfs') for each in logind.ListInhibitors()))") == "True\n"
  }

  /// Waits until the agent delays sleep, or does not.
  func waitUntilSleep(isDelayed: Bool) throws {
    try #require(
      eventually { try isSleepDelayed() == isDelayed }, "sleep is \(isDelayed ? "not delayed" : "still delayed")")
  }
}
