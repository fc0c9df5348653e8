import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Listens to all daemons of this user, and has the desktop told what concerns it.
final class DaemonEvents: Sendable {
  private let notices: DesktopNotices
  /// The daemons that are listened to.
  private let known = RankedMutex<Set<ControlSocket>>(.commandState, [])

  init(for notices: DesktopNotices) { self.notices = notices }

  /// Finds daemons, for ever: the body of a thread.
  func run() -> Never {
    let table = try? SharedDescriptor(Descriptor.open("/proc/self/mountinfo", [.readOnly]))
    while true {
      for daemon in ControlSocket.daemons(of: Process.identity.user) { listen(to: daemon.socket) }
      // A daemon listens soon after it has mounted. Mounts that this process does not see are found in their time.
      _ = try? Poll.wait(for: .changed(table?.descriptor.rawValue ?? -1), atMost: .seconds(60))
      Thread.sleep(microseconds: 1_000_000)
    }
  }

  private func listen(to socket: ControlSocket) {
    guard known.withLock({ $0.insert(socket).inserted }) else { return }
    let thread = try? Thread(starting: "events") { [self] in
      follow(socket)
      _ = known.withLock { $0.remove(socket) }
    }
    guard let thread else { return known.withLock { _ = $0.remove(socket) } }
    thread.detach()
  }

  /// Listens until the daemon ends.
  private func follow(_ socket: ControlSocket) {
    guard let connection = try? Self.connect(to: socket) else { return }
    try? connection.events { event in
      switch event {
      case .willBecomeUnavailable(_, let seconds) where 0 < seconds && seconds < 3600:
        lookForDelay(of: socket, after: seconds)
      case .accessDenied(let denial): notices.isRefused(Process.name(of: denial.processID) ?? "A program")
      default: break
      }
      return true
    }
  }

  /// Asks, when the grace period has ended, whether programs delay the lock.
  private func lookForDelay(of socket: ControlSocket, after seconds: Double) {
    let thread = try? Thread(starting: "delay") { [notices] in
      Thread.sleep(microseconds: UInt32((seconds + 0.2) * 1_000_000))
      guard var daemon = try? Self.connect(to: socket), let status = try? daemon.status(),
        status.delayingClients > 0, let rest = status.secondsUntilRevoked
      else { return }
      notices.lockIsDelayed(of: status.mountPoint.printable, by: status.delayingClients, atMost: rest)
    }
    thread?.detach()
  }

  private static func connect(to socket: ControlSocket) throws(Errno) -> DaemonConnection {
    try DaemonConnection(at: socket, owner: Process.identity.user)
  }
}
