import ProtectfsLibc
import SystemPackage

/// The service manager that may have started this process, such as systemd (sd_notify(3)).
package enum ServiceManager {
  /// Notifies it that the service is ready, if it wants to know: what needs the service waits for that.
  package static func notifyReady() throws(Errno) {
    guard let path = Process.environment("NOTIFY_SOCKET") else { return }
    let socket = try LocalSocket(isDatagram: true)
    // A path; systemd has no other kind for its services.
    try socket.connect(to: path)
    try socket.send(Array("READY=1".utf8))
  }

  /// The listening socket that it has made for this process, if it has (sd_listen_fds(3)); to be taken once. Programs
  /// that are started from now on do not get it.
  package static func takeSocket() -> LocalSocket? {
    guard Process.environment("LISTEN_PID") == "\(Process.number)", Process.environment("LISTEN_FDS") == "1" else {
      return nil
    }
    let first: CInt = 3
    _ = fcntl(first, F_SETFD, FD_CLOEXEC)
    return LocalSocket(owning: first)
  }
}
