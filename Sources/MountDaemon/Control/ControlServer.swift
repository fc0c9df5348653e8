import Logging
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// The control socket of a mount: Varlink for the mount's owner and root, described in Documentation/PROTOCOL.md.
///
/// Nothing that a client sends, or fails to send or read, stops the daemon or another client: messages, connections,
/// waiting events and times are all bounded.
package final class ControlServer: Sendable {
  /// The bounds within which a client is served.
  package struct Limits: Sendable {
    /// Connections at a time. For one more, another is closed (``ConnectionTable``).
    package var connections = 256
    /// Connections at a time whose replies are a stream, or that wait for a lock, which lasts: the rest is for calls
    /// that end, a lock above all.
    package var streams = 192
    /// Calls at a time that wait until their secret is tried.
    package var secrets = 32
    /// How long a connection may be silent between calls.
    package var idle = Duration.seconds(60)
    /// How long the bytes of one message may take.
    package var message = Duration.seconds(10)
    /// How long a client may take to make room for a reply, in seconds.
    package var sendSeconds = 5
    /// Events that wait for a client that listens.
    package var waitingEvents = 256
    /// The longest grace period that a client may ask for, in seconds.
    package var longestGracePeriod = 86_400.0

    /// The bounds of a daemon.
    package init() {}
  }

  private struct State {
    var isStopping = false
    var connections = ConnectionTable()
    var accepting: Thread?
  }

  /// What starts a thread for a client.
  package typealias ThreadStart = @Sendable (_ body: @escaping @Sendable () -> Void) throws(Errno) -> Void

  /// How many threads ``start()`` starts.
  package static let threadCount = 1 + ControlReserve.threadCount

  private let listener: ControlListener
  private let control: any DaemonControl
  private let limits: Limits
  private let logger: Logger
  let derivation: DerivationLock
  private let streams: CallCount
  private let reserve = ControlReserve()
  private let startThread: ThreadStart
  private let state = RankedMutex(.controlClients, State())

  /// Makes the socket for the mount of a canonical mount point, which is also named after the `backing` directory.
  /// Starts no thread: clients wait until ``start()``.
  ///
  /// - Throws: where no socket can be made, or a daemon for this mount point answers already.
  package init(
    mountPoint: String, backing: Status? = nil, control: any DaemonControl, logger: Logger, limits: Limits = Limits(),
    directories: [String] = ControlSocket.directories(of: Process.identity.user),
    startThread: @escaping ThreadStart = { (body) throws(Errno) in
      try Thread(starting: "control client", body).detach()
    }
  ) throws(ControlError) {
    listener = try ControlListener(mountPoint: mountPoint, backing: backing, directories: directories)
    self.control = control
    self.logger = logger
    self.limits = limits
    derivation = DerivationLock(limit: limits.secrets)
    streams = CallCount(limit: limits.streams)
    self.startThread = startThread
  }

  /// The path of the socket, for logs and for other Varlink clients.
  package var socketPath: String { location.path }

  /// Where the socket is.
  var location: ControlSocket { listener.location }

  /// Starts to serve clients, on threads of the server's own.
  package func start() {
    reserve.start { [self] client in
      serve(LocalSocket(owning: client.socket), number: client.number, limits.ofReserve, CallCount(limit: 0))
    }
    state.withLock { $0.accepting = Thread(name: "control") { [self] in acceptClients(of: listener.socket) } }
  }

  /// Serves clients of a socket that the service manager has made, too, as long as this process lives.
  package func start(on socket: consuming LocalSocket) {
    let number = socket.release()
    Thread(name: "control") { [self] in acceptClients(of: LocalSocket(owning: number)) }.detach()
  }

  /// Removes the socket and closes every connection. A call that the daemon is carrying out still ends on its own.
  package func stop() {
    listener.removeFile()
    let accepting = state.withLock { state in
      state.isStopping = true
      state.connections.endAll()
      return state.accepting.take()
    }
    listener.socket.shutDown()
    accepting?.join()
    reserve.stop()
    for _ in 0..<100 where state.withLock({ !$0.connections.isEmpty }) { MonotonicClock.sleep(microseconds: 10_000) }
  }

  private func acceptClients(of socket: borrowing LocalSocket) {
    while !state.withLock({ $0.isStopping }) {
      do throws(Errno) {
        admit(try socket.accept())
      } catch {
        if error == .connectionAbort { continue }
        // Out of descriptors or memory: the clients stay in the queue until some are free again, and one that is silent
        // gives way.
        let hasEnded = state.withLock { $0.connections.makeRoom() }
        MonotonicClock.sleep(microseconds: hasEnded ? 1000 : 50_000)
      }
    }
  }

  /// Gives a client a thread, of its own if one can be started, unless it may not be one or there are too many.
  private func admit(_ socket: consuming LocalSocket) {
    guard let user = try? socket.peerUser(), user == control.owner || user == 0 else {
      logger.warning("a control connection of another user was closed")
      return
    }
    let descriptor = socket.rawValue
    let process = (try? socket.peerProcess()) ?? 0
    let number = state.withLock { state in
      state.isStopping
        ? nil
        : state.connections.admit(
          descriptor, of: process, limit: limits.connections, now: MonotonicClock.nanoseconds)
    }
    guard let number else {
      logger.warning("a control connection was closed: \(limits.connections) calls are being carried out")
      return
    }
    _ = socket.release()
    do throws(Errno) {
      try startThread { [self] in serve(LocalSocket(owning: descriptor), number: number, limits, streams) }
    } catch {
      logger.warning("no thread can be started for a control connection: it has one for calls that end soon")
      reserve.add(ControlReserve.Client(socket: descriptor, number: number, process: process))
    }
  }

  private func serve(
    _ socket: consuming LocalSocket, number: ConnectionTable.Number, _ limits: Limits, _ streams: CallCount
  ) {
    let connection = ControlConnection(
      socket: socket, control: control, limits: limits, derivation: derivation, streams: streams)
    let reason = connection.serve { [self] isSilent in
      let now = isSilent ? MonotonicClock.nanoseconds : nil
      state.withLock { $0.connections.note(number, silentSince: now) }
    }
    switch reason {
    case .ended, .timedOut: logger.debug("a control connection ended: \(reason)")
    case .malformed, .tooDeep, .tooLong: logger.warning("a control connection was closed: message \(reason)")
    }
    // Out of the table before the descriptor is closed, so that stop() shuts down no stranger's.
    state.withLock { $0.connections.remove(number) }
    _ = consume connection
  }
}
