import ProtectfsLibc
import SystemPackage

extension Errno {
  /// Whether the kernel says with this that a mount's daemon is gone. After the end of the connection it answers
  /// `ENOTCONN`. A request that is on its way when the connection ends gets `ECONNABORTED`, or `ECANCELED` if the
  /// daemon had rings, whose end comes a moment after the daemon's.
  package var isOfAGoneDaemon: Bool { self == .socketNotConnected || self == .connectionAbort || self == .canceled }

  /// Whether this says of an open file that it was removed: on a network file system, perhaps by another host.
  package var isOfARemovedFile: Bool { self == .noSuchFileOrDirectory || self == .staleNFSFileHandle }

  /// Whether a network file system says with this that it takes nothing more of a host that it had given up: GlusterFS
  /// `EBADFD` of a descriptor that had a lock, CephFS `ESHUTDOWN` of everything, NFS `ESTALE` of a file.
  package var isOfAGivenUpHost: Bool {
    [Errno(rawValue: EBADFD), .socketShutdown, .staleNFSFileHandle].contains(self)
  }

  /// Whether a file system says with this that it does not reach its server, or is not served any more.
  package var isOfASilentServer: Bool {
    isOfAGivenUpHost || isOfAGoneDaemon || [.ioError, .timedOut, .hostIsDown, .noRouteToHost].contains(self)
  }
}
