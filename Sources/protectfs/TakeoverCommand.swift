import ArgumentParser
import MountDaemon
import ProtectfsIO

/// `protectfs takeover`
struct TakeoverCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "takeover",
    abstract: "Take the claim to write a store from a host that is off.",
    discussion: """
      Of several hosts that share a store one writes it, and a lock keeps the others from that. When that host is lost, \
      the file system gives its lock away, after minutes or, as MooseFS by default, after a day; but what the host had \
      begun to write may come later, except on CephFS and GlusterFS. If you know that the host is off, this gives the \
      store up for it: then the store can be mounted, and a standby mounts it.

      A host that is not off, or comes back, ends its mount as soon as it looks, within about a second; what it writes \
      before may damage what the next host has written.

      Example:
        protectfs takeover --old-host-is-off /net/store
      """)

  @Flag(help: "Say that the host that has the store is off.")
  var oldHostIsOff = false

  @Argument(help: .init("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  func validate() throws {
    guard oldHostIsOff else {
      throw ValidationError("Make sure that the host that writes the store is off, and say so with --old-host-is-off.")
    }
  }

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    print(try Store.takeOver(path) ? "The store can be mounted." : "Nobody writes the store; it can be mounted.")
  }
}
