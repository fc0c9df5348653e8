import ProtectfsIO

/// A connection on which a daemon sends its events: `MonitorEvents` of the control interface. It can be waited for
/// together with others.
package struct EventConnection: ~Copyable, Sendable {
  private var connection: DaemonConnection

  /// Asks for the events. The first is ``DaemonEvent/monitoringBegan(_:)``.
  package init(_ connection: consuming DaemonConnection) throws(ControlError) {
    try connection.send(.events, NoParameters(), more: true)
    self.connection = connection
  }

  /// Waits until there is an event, or one of the other descriptors is readable.
  package borrowing func wait(or other: CInt, atMost time: Duration?) {
    if connection.hasMessage { return }
    _ = try? Poll.wait(for: .readable(connection.socket.rawValue), .readable(other), atMost: time)
  }

  /// Whether the next event, or the end of the connection, is there.
  package var isReadable: Bool {
    connection.hasMessage
      || (try? Poll.wait(for: .readable(connection.socket.rawValue), atMost: .zero))?.first ?? false
  }

  /// Waits for the next event; `nil` for one that a later version has added.
  ///
  /// - Parameter patience: the seconds after which a silent daemon counts as hung; 0 for no limit.
  /// - Throws: ``ControlError/Code-swift.enum/noAnswer`` if the daemon has ended.
  package mutating func next(patience: Int) throws(ControlError) -> DaemonEvent? {
    let reply = try connection.receive(EventReply.self, patience: patience)
    guard reply.continues else { throw ControlError(.noAnswer, "the daemon has ended the events") }
    return reply.parameters.event
  }
}
