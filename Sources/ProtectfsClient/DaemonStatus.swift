import ProtectfsPolicy

/// What the daemon of a mount says of itself: `GetStatus` of the control interface.
public struct DaemonStatus: Codable, Sendable, Hashable {
  /// The state of the device.
  public var state: LockState
  /// While a lock is announced: the seconds until classes A and B become unavailable, at the latest where clients hold
  /// it back. Else `nil`.
  public var secondsUntilRevoked: Double?
  /// Locked, and class CX still available: the seconds until it no longer is. Else `nil`.
  public var secondsUntilInactive: Double?
  /// The seconds that a lock waits after it was announced, unless it says otherwise.
  public var gracePeriod: Double
  /// The seconds for which class CX outlives a lock.
  public var inactivityPeriod: Double
  /// One entry a class, in the order of `ProtectionClass.allCases`.
  public var classes: [ClassStatus]
  /// The class of a new file in the root directory, chosen when the store was made.
  public var defaultClass: ProtectionClass
  /// The directory of ciphertext.
  public var backing: String
  /// Where it is mounted.
  public var mountPoint: String
  /// The store's UUID, as RFC 9562 writes it.
  public var storeID: String
  /// The user who mounted it; this user and root may control it.
  public var owner: UInt32
  /// The daemon's process.
  public var processID: Int32
  /// The daemon's version.
  public var version: String
  /// Mounted with `-o ro`.
  public var isReadOnly: Bool
  /// Mounted with `-o shared`: others may change the backing directory meanwhile.
  public var isShared: Bool
  /// The inodes that the kernel knows, each of which takes some memory of the daemon.
  public var knownInodes: Int
  /// Names in the backing directory that decrypt to no name, seen since the mount; listings leave them out.
  public var undecodableNames: Int
  /// Accesses refused since the mount because of a class.
  public var refusals: Int
  /// Requests of the kernel since the mount, by the name of the operation in libfuse.
  public var requests: [String: Int]
  /// The clients that hold back the lock that is announced.
  public var delayingClients: Int
  /// The files known to have a rekey pending: their contents are on the way to being under a new key.
  public var pendingRekeys = 0
  /// Those of them that failed, and are tried again later.
  public var failedRekeys = 0
  /// Those of them whose class is locked, which go on after an unlock.
  public var lockedRekeys = 0

  /// A status of these values.
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
  /// Decodes a status; what a daemon of an earlier version does not say has its default.
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
  }
}

/// What the daemon holds of one class.
public struct ClassStatus: Codable, Sendable, Hashable {
  /// The class.
  public var protectionClass: ProtectionClass
  /// What is in memory of its key.
  public var key: KeyAvailability
  /// Open handles on files of the class.
  public var openHandles: Int

  /// A status of these values.
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
