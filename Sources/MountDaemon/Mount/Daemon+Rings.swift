import FUSE
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Why requests come as they do: what was measured, or why not through io_uring, and what can be done about it.
final class TransportReason: Sendable {
  let words: String
  let isForRings: Bool

  init(_ words: String, isForRings: Bool = false) {
    self.words = words
    self.isForRings = isForRings
  }

  /// The kernel does not offer rings.
  fileprivate static func notOffered(isKnown: Bool) -> TransportReason {
    TransportReason(
      isKnown
        ? "FUSE over io_uring is turned off; 'echo Y >/sys/module/fuse/parameters/enable_uring' turns it on for later mounts"
        : "this kernel has no FUSE over io_uring, which Linux 6.14 and later can have")
  }

  /// The file that aborts the connection cannot be opened.
  fileprivate static func noAbort(_ error: Errno) -> TransportReason {
    TransportReason(
      error == .noSuchFileOrDirectory
        ? "the kernel's list of connections is not mounted; root mounts it with 'mount -t fusectl fusectl "
          + "/sys/fs/fuse/connections'"
        : "the connection cannot be opened in /sys/fs/fuse/connections: \(error)")
  }

  /// The rings cannot be made.
  fileprivate static func noRings(_ error: Errno) -> TransportReason {
    switch error {
    case .notSupported: TransportReason("FUSE over io_uring is for \(Session.mostRingProcessors) processors at most")
    case .notPermitted where forbiddenBySetting:
      TransportReason(
        "kernel.io_uring_disabled forbids io_uring; root permits it with 'sysctl kernel.io_uring_disabled=0'")
    case .notPermitted:
      TransportReason("a filter of system calls (seccomp), as containers have, forbids io_uring_setup(2)")
    case .noFunction:
      TransportReason("the kernel has no io_uring, or a filter of system calls (seccomp) hides io_uring_setup(2)")
    default: TransportReason("rings of io_uring cannot be made: \(error)")
    }
  }

  private static var forbiddenBySetting: Bool {
    let setting = try? Descriptor.open("/proc/sys/kernel/io_uring_disabled", [.readOnly]).readAll(limit: 8)
    return [UInt8(ascii: "1"), UInt8(ascii: "2")].contains(setting?.first)
  }
}

extension Daemon {
  /// Makes the rings of the second transport, unless they are not wanted, or not chosen. Returns whether there are any.
  /// Without them, requests come from the device.
  func makeRings(_ session: Session, _ files: SharedNumbers, _ choice: TransportChoice?) -> Bool {
    if options.transport == .device { return false }
    let isOffered = Session.kernelOffersRings
    if options.transport == nil, isOffered != true {
      if isOffered == false, Process.identity.user == 0 {
        log.notice(
          """
          the kernel could pass requests with less work, over io_uring; \
          'echo Y >/sys/module/fuse/parameters/enable_uring' turns that on for later mounts
          """)
      }
      return false
    }
    if let choice, !choice.usesRings {
      log.debug("\(choice.reason): requests come through /dev/fuse")
      _ = transportReason.storeIfNil(TransportReason(choice.reason))
      return false
    }
    let obstacle = obstacle(to: session, files, isOffered)
    let reason = obstacle ?? choice.map { TransportReason($0.reason, isForRings: true) }
    if let reason { _ = transportReason.storeIfNil(reason) }
    guard let obstacle else { return true }
    log.log(
      level: options.transport == .ioUring ? .warning : .info,
      "\(obstacle.words): requests come through /dev/fuse, not io_uring")
    return false
  }

  private func obstacle(to session: Session, _ files: SharedNumbers, _ isOffered: Bool?) -> TransportReason? {
    guard isOffered == true else { return .notOffered(isKnown: isOffered != nil) }
    if Session.copiesPages {
      return TransportReason("before Linux 6.16 a lock would not see what the kernel writes back by way of io_uring")
    }
    do throws(Errno) {
      // Without that, requests that a killed daemon had taken would never end.
      guard let mount = try MountedFileSystem.at(options.mountPoint) else { throw .noSuchFileOrDirectory }
      _ = try KernelConnection.openAbort(of: mount.device)
    } catch {
      return .noAbort(error)
    }
    do throws(Errno) { try session.makeRings(mountPoint: options.mountPoint, files: files) } catch {
      return .noRings(error)
    }
    return nil
  }

  /// How requests come, and why, unless that was asked for.
  var transport: (RequestTransport, reason: String?) {
    let reason = transportReason.load()
    if requests.usesRings.load(ordering: .relaxed) { return (.ioUring, reason?.words) }
    if let reason, !reason.isForRings { return (.device, reason.words) }
    return (.device, reason != nil || options.transport == .ioUring ? "the kernel did not take the rings" : nil)
  }
}
