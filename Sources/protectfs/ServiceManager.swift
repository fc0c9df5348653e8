import ProtectfsIO
import SystemPackage

/// The service manager that a daemon in the foreground may have been started by, such as systemd (sd_notify(3)).
enum ServiceManager {
  /// Tells that the mount is ready, to a manager that wants to know: what needs the mount waits for that.
  static func tellReady() {
    guard let variable = Process.environment("NOTIFY_SOCKET") else { return }
    do throws(Errno) {
      let socket = try LocalSocket(isDatagram: true)
      // A path; systemd has no other kind for its services.
      try socket.connect(to: variable)
      try socket.send(Array("READY=1".utf8))
    } catch {
      CommandFailure.report("the service manager could not be notified that the mount is ready: \(error)")
    }
  }
}
