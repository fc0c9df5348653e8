import SystemPackage

extension Errno {
  /// Whether the kernel says with this that a mount's daemon is gone. After the end of the connection it answers
  /// `ENOTCONN`. A request that is on its way when the connection ends gets `ECONNABORTED`, or `ECANCELED` if the
  /// daemon had rings, whose end comes a moment after the daemon's.
  package var isOfAGoneDaemon: Bool { self == .socketNotConnected || self == .connectionAbort || self == .canceled }
}
