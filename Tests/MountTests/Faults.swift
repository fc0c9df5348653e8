import CSystemCalls
import Cryptography
import Glibc
import KeyManagement
import MountDaemon
import ProtectfsIO
import StoreCheck
import StoreFormat
import SystemPackage
import Testing

/// Makes calls of the daemon or the command on the backing store fail, or makes one its last; see `CFaults.h`.
@safe final class Faults: @unchecked Sendable {
  private let faults: UnsafeMutablePointer<faults>
  private let volume: Volume
  /// The environment that makes a process controllable.
  let environment: [String: String]

  /// The calls that count.
  struct Kinds: OptionSet {
    let rawValue: UInt32

    static let changes = Kinds(rawValue: UInt32(FAULTS_CHANGES))
    static let reads = Kinds(rawValue: UInt32(FAULTS_READS))
    static let room = Kinds(rawValue: UInt32(FAULTS_ROOM))
    static let writes = Kinds(rawValue: UInt32(FAULTS_WRITES))
    static let flushes = Kinds(rawValue: UInt32(FAULTS_FLUSH))
    static let records = Kinds(rawValue: UInt32(FAULTS_RECORDS))
    static let synchronization = Kinds(rawValue: UInt32(FAULTS_SYNC))
    /// None, but no two names are exchanged meanwhile.
    static let withoutExchange = Kinds(rawValue: UInt32(FAULTS_NO_EXCHANGE))
  }

  /// What happens at the selected call.
  enum Action {
    case count
    case fail(Errno)
    /// It fails although it was carried out.
    case failAfter(Errno)
    /// It and all later ones fail.
    case failOn(Errno)
    /// Half is written; the next write fails.
    case fallShort(Errno)
    /// It is carried out, and returns when the faults are disarmed.
    case hold
    /// It takes one and a half seconds.
    case stall
    /// It and all later ones take a quarter of a second.
    case slow
    /// It and all later ones wait until the faults are disarmed.
    case hang
    case end
  }

  /// The calls at which something happens, one after the other: one in four, or with `PROTECTFS_ALL_FAULTS` each.
  static let places = stride(from: 1, to: Int.max, by: unsafe getenv("PROTECTFS_ALL_FAULTS") == nil ? 4 : 1)

  /// Controls what concerns a volume's backing directory, or another directory, by a file beside it.
  init(of volume: Volume, in directory: PathName? = nil) throws {
    let (path, directory) = (volume.directory.appending("faults"), directory ?? volume.backing)
    let opened = unsafe path.withCString { path in unsafe directory.withCString { unsafe faults_open(path, $0) } }
    unsafe faults = try unsafe #require(opened)
    self.volume = volume
    environment = Self.environment(path)
  }

  deinit { unsafe faults_close(faults) }

  /// Makes a process have them, which do nothing until they are armed.
  static func environment(_ path: PathName) -> [String: String] {
    [FAULTS_VARIABLE: path.description]
  }

  /// Selects the `number`th call of these kinds, from 1, from now on.
  func arm(_ action: Action, at number: Int, of kinds: Kinds) {
    let (code, error): (Int, Errno?) =
      switch action {
      case .count: (FAULTS_COUNT, nil)
      case .fail(let error): (FAULTS_FAIL, error)
      case .failAfter(let error): (FAULTS_FAIL_AFTER, error)
      case .failOn(let error): (FAULTS_FAIL_ON, error)
      case .fallShort(let error): (FAULTS_SHORT, error)
      case .hold: (FAULTS_HOLD, nil)
      case .stall: (FAULTS_STALL, nil)
      case .slow: (FAULTS_SLOW, nil)
      case .hang: (FAULTS_HANG, nil)
      case .end: (FAULTS_END_AFTER, nil)
      }
    unsafe faults_arm(faults, kinds.rawValue, UInt32(code), UInt32(number), UInt32(error?.rawValue ?? 0))
  }

  func disarm() { unsafe faults_disarm(faults) }

  /// The number of calls that wait.
  var hanging: Int { unsafe Int(faults_hanging(faults)) }

  /// The name of the selected call, if it has come.
  var hit: String? {
    let name = unsafe withUnsafeBytes(of: &faults.pointee.hit) { unsafe Array($0.prefix { $0 != 0 }) }
    return name.isEmpty ? nil : String(decoding: name, as: UTF8.self)
  }

  /// Waits until no more calls come: some requests, such as that of the last close, are served after the caller has
  /// returned. The kernel has woken the daemon for them by then.
  func settle() {
    var seen = unsafe faults_seen(faults)
    eventually {
      sleepsEventually(volume.processID)
      defer { seen = unsafe faults_seen(faults) }
      return unsafe faults_seen(faults) == seen
    }
  }

  /// Calls `body` with the `number`th call selected, and waits for what is served afterwards. Returns the error of
  /// `body`, and the name of the call if it came.
  func during(
    _ action: Action, at number: Int, of kinds: Kinds, _ body: () throws(Errno) -> Void
  ) -> (error: Errno?, hit: String?) {
    arm(.count, at: 0, of: [.changes, .reads])
    settle()
    arm(action, at: number, of: kinds)
    let error = failure(of: body)
    settle()
    disarm()
    return (error, hit)
  }
}

extension Volume {
  /// Creates a store whose daemon can be given faults, mounts and unlocks it, and calls `body`.
  static func withFaults(_ options: [String] = [], _ body: (Volume, Faults) throws -> Void) throws {
    try store(environment: { Faults.environment($0.appending("faults")) }) { volume in
      let faults = try Faults(of: volume)
      try volume.mount(options)
      try volume.unlock()
      try body(volume, faults)
    }
  }

  /// Checks the store like `fsck`, and returns the codes of the findings, none of which may be an error. Runs in this
  /// process: there are hundreds of checks, and starting the command takes longer than a check.
  func notesOfCheck(_ comment: Comment, sourceLocation: SourceLocation = #_sourceLocation) throws -> Set<String> {
    let directory = try Store.open(backing.description)
    let lock = try Store.lock(directory, path: backing.description, for: .check)
    defer { lock.hold() }
    let copies = try KeybagCopies(backing: directory)
    let deviceKey = try volumeDeviceKey()
    let keybag = try copies.firstUsable(in: directory) { (bytes) throws(KeyManagementError) in
      try Keybag(parsing: bytes, deviceKey: deviceKey)
    }
    let codes = FoundCodes()
    let summary = try StoreCheck.run(
      directory, copies: copies, keybag: keybag, deviceKey: deviceKey, observer: codes)
    #expect(summary.errors == 0, "\(comment): \(codes.all)", sourceLocation: sourceLocation)
    return codes.all
  }
}

/// The codes of a check's findings.
private final class FoundCodes: CheckObserver {
  private(set) var all: Set<String> = []

  func found(_ finding: Finding) { all.insert(finding.defect.rawValue) }
  func checked(_ summary: CheckSummary) {}
}
