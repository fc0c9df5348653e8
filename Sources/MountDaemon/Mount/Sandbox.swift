import ProtectfsIO
import SystemPackage

/// What a daemon gives up once it has mounted, and a restore before it reads a store: whoever takes it over can then do
/// little more than it does anyway.
package enum Sandbox {
  /// What a daemon of root keeps, to serve the files of all users. One of an ordinary user has none of it.
  ///
  /// Not among them, although there is something to it:
  /// - `CAP_DAC_READ_SEARCH`: the second here includes it, but for files by number, which are not used.
  /// - `CAP_SYS_RESOURCE`: quotas of the backing file system hold for those who write by way of the mount.
  /// - `CAP_SYS_PTRACE`: where `/proc` hides processes (`hidepid`), a caller's supplementary groups are not seen, so
  ///   that its writes take away a set-group-ID bit that it might have kept.
  /// - `CAP_IPC_LOCK`: memory for keys is locked before.
  static let capabilities: Capabilities = [
    .changeOwner,  // What is made belongs to its caller.
    .overridePermissions,  // The kernel has asked the modes already, for the caller (`default_permissions`).
    .actAsOwner,  // Modes, times and ACLs of others' files; O_NOATIME; others' names in sticky directories.
    .keepSetIDBits,  // Writes and chmod(2) leave the bits that the rules for the caller leave.
    .makeNodes,  // mknod(2) of devices, which root may ask for.
    .setFileCapabilities,  // security.capability
    .administrate,  // trusted.*, on which overlayfs is built, and security.*: without it they could not be kept.
  ]

  /// Told what could not be given up, and why.
  package typealias Report = (String, Errno) -> Void

  /// Gives up what is not among ``capabilities``, for this thread and those it starts; ``enter(allowsRings:report:)``
  /// does so too.
  package static func dropCapabilities(_ report: Report) {
    attempt("capabilities", report) { () throws(Errno) in try Privileges.keep(capabilities) }
  }

  /// Gives the privileges up, for this thread and those it starts; other threads only lose the system calls and new
  /// privileges. What the kernel does not know is passed over.
  ///
  /// - Parameter allowsRings: Rings of io_uring(7) that were made before are used from now on (``CommandRing``).
  package static func enter(allowsRings: Bool = false, report: Report) {
    dropCapabilities(report)
    attempt("no new privileges", report) { () throws(Errno) in try Privileges.refuseNew() }
    attempt("filter of system calls", report) { () throws(Errno) in
      try Privileges.filterSystemCalls(allowsRings: allowsRings)
    }
  }

  private static func attempt(_ part: String, _ report: Report, _ body: () throws(Errno) -> Void) {
    do throws(Errno) { try body() } catch { report(part, error) }
  }
}
