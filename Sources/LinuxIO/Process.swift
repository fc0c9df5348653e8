import Glibc

/// What the kernel says of the process itself.
package enum Process {
  /// The effective user and group, in whose name the daemon creates backing files.
  package static var identity: (user: UInt32, group: UInt32) { (geteuid(), getegid()) }
}
