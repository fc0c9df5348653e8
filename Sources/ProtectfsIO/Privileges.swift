import CProtectfsIO
import SystemPackage

/// Capabilities of a process (capabilities(7)).
package struct Capabilities: OptionSet, Sendable {
  package let rawValue: UInt64

  package init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  private init(number: UInt64) {
    rawValue = 1 << number
  }

  package static let changeOwner = Capabilities(number: 0)  // CAP_CHOWN
  package static let overridePermissions = Capabilities(number: 1)  // CAP_DAC_OVERRIDE
  package static let readAndSearch = Capabilities(number: 2)  // CAP_DAC_READ_SEARCH
  package static let actAsOwner = Capabilities(number: 3)  // CAP_FOWNER
  package static let keepSetIDBits = Capabilities(number: 4)  // CAP_FSETID
  package static let administrate = Capabilities(number: 21)  // CAP_SYS_ADMIN
  package static let makeNodes = Capabilities(number: 27)  // CAP_MKNOD
  package static let setFileCapabilities = Capabilities(number: 31)  // CAP_SETFCAP
}

/// Privileges that a process drops permanently. Capabilities are those of the calling thread and of those it starts;
/// the filter of system calls, and with it the refusal of new privileges, applies to all threads.
package enum Privileges {
  /// Drops all capabilities of the process but these. Without `CAP_SETPCAP` the bounding set stays.
  package static func keep(_ capabilities: Capabilities) throws(Errno) {
    try check(linux_keep_capabilities(capabilities.rawValue))
  }

  /// Refuses the privileges that set-ID bits or file capabilities of programs would give (prctl(2),
  /// `PR_SET_NO_NEW_PRIVS`).
  package static func refuseNew() throws(Errno) {
    try check(linux_set_no_new_privileges())
  }

  /// Blocks the system calls that a file system daemon never makes; CProtectfsIO has the list. They fail with `EPERM`.
  /// A call for another architecture ends the process (seccomp(2)). New privileges must be refused before. Rings of
  /// io_uring(7) that were made before can be used if `allowsRings`; no others can be made.
  ///
  /// - Throws: `EINVAL` or `ENOSYS` if the kernel has no such filters.
  package static func filterSystemCalls(allowsRings: Bool = false) throws(Errno) {
    try check(linux_filter_system_calls(allowsRings ? 1 : 0))
  }
}
