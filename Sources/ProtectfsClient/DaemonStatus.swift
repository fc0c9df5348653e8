import ProtectfsPolicy

/// The status of a mount's daemon: `GetStatus` of the control interface.
public struct DaemonStatus: Codable, Sendable, Hashable {
  /// The lock state.
  public var state: LockState
  /// While a lock is announced: the seconds until classes A and B become unavailable, or an upper bound while clients
  /// delay the lock. Otherwise `nil`.
  public var secondsUntilRevoked: Double?
  /// While locked with class CX still available: the seconds until the class becomes unavailable. Otherwise `nil`.
  public var secondsUntilInactive: Double?
  /// The seconds between the announcement of a lock and the lock, unless the lock specifies others.
  public var gracePeriod: Double
  /// The seconds for which class CX stays available after a lock.
  public var inactivityPeriod: Double
  /// One entry per class, in the order of `ProtectionClass.allCases`.
  public var classes: [ClassStatus]
  /// The class of new files in the root directory, set when the store was created.
  public var defaultClass: ProtectionClass
  /// The directory of ciphertext.
  public var backing: String
  /// The mount point.
  public var mountPoint: String
  /// The store's UUID in the text form of RFC 9562.
  public var storeID: String
  /// The user who mounted it. This user and root may control it.
  public var owner: UInt32
  /// The daemon's process.
  public var processID: Int32
  /// The daemon's version.
  public var version: String
  /// Mounted with `-o ro`.
  public var isReadOnly: Bool
  /// Mounted with `-o shared`: others may change the backing directory while it is mounted.
  public var isShared: Bool
  /// The number of inodes that the kernel knows. Each takes some memory in the daemon.
  public var knownInodes: Int
  /// The number of names in the backing directory, seen since the mount, that could not be decrypted. Listings leave
  /// them out.
  public var undecodableNames: Int
  /// The number of accesses refused because of a class since the mount.
  public var refusals: Int
  /// The kernel's requests since the mount, by the name of the operation in libfuse.
  public var requests: [String: Int]
  /// The number of clients that delay the announced lock.
  public var delayingClients: Int
  /// The number of files known to have a rekey pending, whose contents are being re-encrypted under a new key.
  public var pendingRekeys = 0
  /// The number of them that failed and are retried later.
  public var failedRekeys = 0
  /// The number of them whose class is locked. They continue after an unlock.
  public var lockedRekeys = 0

  /// While locked, with `-o at_rest`: the seconds until all classes become unavailable, as before the first unlock.
  /// Otherwise `nil`.
  public var secondsUntilRest: Double?

  /// When the store was erased, in the form of RFC 3339; `nil` if it was not. Then nothing can be read any more, in any
  /// lock state.
  public var erased: String?

  /// How the kernel's requests reach the daemon.
  public var transport = RequestTransport.device
  /// Why: what waking a processor takes, or what keeps requests from io_uring. `nil` if it was asked for so.
  public var transportReason: String?

  /// The name of the host of the store that the machine is; `nil` where it opens all of the store.
  public var host: String?
  /// The classes whose keys the host has.
  public var hostClasses: [ProtectionClass]?

  /// Creates a status.
  public init(
    state: LockState, secondsUntilRevoked: Double? = nil, secondsUntilInactive: Double? = nil, gracePeriod: Double,
    inactivityPeriod: Double, classes: [ClassStatus], defaultClass: ProtectionClass, backing: String,
    mountPoint: String, storeID: String, owner: UInt32, processID: Int32, version: String, isReadOnly: Bool = false,
    isShared: Bool = false, knownInodes: Int = 0, undecodableNames: Int = 0, refusals: Int = 0,
    requests: [String: Int] = [:], delayingClients: Int = 0
  ) {
    self.state = state
    self.secondsUntilRevoked = secondsUntilRevoked
    self.secondsUntilInactive = secondsUntilInactive
    self.gracePeriod = gracePeriod
    self.inactivityPeriod = inactivityPeriod
    self.classes = classes
    self.defaultClass = defaultClass
    self.backing = backing
    self.mountPoint = mountPoint
    self.storeID = storeID
    self.owner = owner
    self.processID = processID
    self.version = version
    self.isReadOnly = isReadOnly
    self.isShared = isShared
    self.knownInodes = knownInodes
    self.undecodableNames = undecodableNames
    self.refusals = refusals
    self.requests = requests
    self.delayingClients = delayingClients
  }
}

extension DaemonStatus {
  /// Decodes a status. Values that an earlier daemon does not send get their defaults.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    self.init(
      state: try container.decode(LockState.self, forKey: .state),
      secondsUntilRevoked: try container.decodeIfPresent(Double.self, forKey: .secondsUntilRevoked),
      secondsUntilInactive: try container.decodeIfPresent(Double.self, forKey: .secondsUntilInactive),
      gracePeriod: try container.decode(Double.self, forKey: .gracePeriod),
      inactivityPeriod: try container.decode(Double.self, forKey: .inactivityPeriod),
      classes: try container.decode([ClassStatus].self, forKey: .classes),
      defaultClass: try container.decode(ProtectionClass.self, forKey: .defaultClass),
      backing: try container.decode(String.self, forKey: .backing),
      mountPoint: try container.decode(String.self, forKey: .mountPoint),
      storeID: try container.decode(String.self, forKey: .storeID),
      owner: try container.decode(UInt32.self, forKey: .owner),
      processID: try container.decode(Int32.self, forKey: .processID),
      version: try container.decode(String.self, forKey: .version),
      isReadOnly: try container.decode(Bool.self, forKey: .isReadOnly),
      isShared: try container.decode(Bool.self, forKey: .isShared),
      knownInodes: try container.decode(Int.self, forKey: .knownInodes),
      undecodableNames: try container.decode(Int.self, forKey: .undecodableNames),
      refusals: try container.decode(Int.self, forKey: .refusals),
      requests: try container.decode([String: Int].self, forKey: .requests),
      delayingClients: try container.decodeIfPresent(Int.self, forKey: .delayingClients) ?? 0)
    pendingRekeys = try container.decodeIfPresent(Int.self, forKey: .pendingRekeys) ?? 0
    failedRekeys = try container.decodeIfPresent(Int.self, forKey: .failedRekeys) ?? 0
    lockedRekeys = try container.decodeIfPresent(Int.self, forKey: .lockedRekeys) ?? 0
    secondsUntilRest = try container.decodeIfPresent(Double.self, forKey: .secondsUntilRest)
    erased = try container.decodeIfPresent(String.self, forKey: .erased)
    transport = try container.decodeIfPresent(RequestTransport.self, forKey: .transport) ?? .device
    transportReason = try container.decodeIfPresent(String.self, forKey: .transportReason)
    host = try container.decodeIfPresent(String.self, forKey: .host)
    hostClasses = try container.decodeIfPresent([ProtectionClass].self, forKey: .hostClasses)
  }
}

/// How the kernel's requests reach a daemon. Later versions may add others.
@nonexhaustive
public enum RequestTransport: String, Codable, Sendable, Hashable {
  /// Through `/dev/fuse`.
  case device
  /// Through queues of io_uring(7), one for each processor (`-o transport=io_uring`).
  case ioUring = "io_uring"
}

/// The status of one class in the daemon.
public struct ClassStatus: Codable, Sendable, Hashable {
  /// The class.
  public var protectionClass: ProtectionClass
  /// How much of its key is in memory.
  public var key: KeyAvailability
  /// The number of open handles on files of the class.
  public var openHandles: Int

  /// Creates a status.
  public init(protectionClass: ProtectionClass, key: KeyAvailability, openHandles: Int) {
    self.protectionClass = protectionClass
    self.key = key
    self.openHandles = openHandles
  }

  private enum CodingKeys: String, CodingKey {
    case protectionClass = "class"
    case key, openHandles
  }
}
