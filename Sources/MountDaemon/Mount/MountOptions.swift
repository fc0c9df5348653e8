import BackingTree
import Contents
import ProtectfsClient
import ProtectfsIO

/// How a store is mounted.
package struct MountOptions: Equatable, Sendable {
  /// The backing directory, as an absolute path.
  package var backing: String
  /// The mount point, as an absolute path.
  package var mountPoint: String
  /// Options for libfuse and the kernel, as `-o` takes them.
  package var fuseOptions: [String] = []
  /// From the announcement of a lock until it takes effect.
  package var gracePeriod = Duration.seconds(10)
  /// How long clients may hold a lock back from its announcement on, where its grace period is not longer.
  package var lockDelay = Duration.seconds(10)
  /// From a lock until class CX goes.
  package var inactivityPeriod = Duration.seconds(600)
  /// From a lock until all classes go as before the first unlock, unless an unlock comes before; `nil`: never.
  package var restPeriod: Duration?
  /// How long a lock waits for the backing store to take what programs wrote, from the last write that completed.
  package var pushTimeout = Duration.seconds(10)
  /// A file that replaces one with an explicit class, or gets the name that one has left, takes that class.
  package var keepsReplacedClass = true
  /// No file is removed if none of its class can be created.
  package var keepsLocked = true
  package var isReadOnly = false
  /// Others may write the backing directory too.
  package var isShared = false
  /// Waits until nobody else writes the store, and then mounts it.
  package var isStandby = false
  /// Everything is locked when a file system that may serve several hosts has not answered for so long; `nil`: never.
  package var isolation: Duration?
  /// Other users may use the mount; what they may do there is for the files' modes to say.
  package var allowsOthers = false
  /// Threads that serve requests.
  package var threads = 8
  /// When processors are kept from deep sleep while requests come fast.
  package var latency = LatencyChoice.automatic
  /// How the kernel's requests are to reach the daemon; `nil`: through rings where that is possible.
  package var transport: RequestTransport?
  /// The daemon gives up the privileges that it needs no more.
  package var isConfined = true
  /// The log names the files that were refused.
  package var logsPaths = false

  package init(backing: String, mountPoint: String) {
    self.backing = backing
    self.mountPoint = mountPoint
  }

  var writers: WriterState { isReadOnly ? .reading : isShared ? .shared : .sole }

  func treeOptions(_ layout: ContentsLayout) -> TreeOptions {
    var options = TreeOptions(layout: layout)
    options.writers = writers
    if isReadOnly { options.lookedUp = LookedUpFiles() }
    options.keepsReplacedClass = keepsReplacedClass
    options.keepsLocked = keepsLocked
    // A quarter of the descriptors for directories, some for the daemon itself; the rest is for what others keep open.
    let limit = Process.openFileLimit
    options.directoryHandles = max(16, min(4096, Int(limit / 4)))
    options.firstReservedDescriptor = CInt(clamping: limit - Process.reservedDescriptors(of: limit))
    return options
  }

  /// The options as libfuse takes them. Modes and ACLs are the kernel's to check (`default_permissions`).
  var sessionOptions: [String] {
    // libfuse takes a comma for the end of an option unless it is escaped, whatever combines with it.
    var name = String.UnicodeScalarView()
    for scalar in backing.unicodeScalars {
      if scalar == "," || scalar == "\\" { name.append("\\") }
      name.append(scalar)
    }
    var options = ["fsname=\(String(name))", "subtype=protectfs", "default_permissions"]
    if allowsOthers { options.append("allow_other") }
    if isReadOnly { options.append("ro") }
    return options + fuseOptions
  }
}

/// When processors are kept from deep sleep while requests come fast, where that is permitted.
package enum LatencyChoice: Sendable {
  /// In a guest on mains power: there a processor that sleeps goes back to the hypervisor.
  case automatic
  case low
  case system
}
