import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

/// An operation of a program in a directory, which may be interrupted or fail at each of the daemon's calls.
struct FaultOperation: Sendable {
  let name: String
  /// The possible states after it failed or was interrupted.
  var outcome = Outcome.whole
  /// What a check of the store may find after a crash.
  var leftovers: Set<String> = []
  /// Calls of the daemon whose failure does not make the operation fail.
  var passedOver: Set<String> = []
  /// It writes into the cache, so the kernel has a length of its own.
  var isCached = false
  var prepare: @Sendable (PathName) throws(Errno) -> Void
  var run: @Sendable (PathName) throws(Errno) -> Void

  enum Outcome: Sendable {
    /// The old state or the new one.
    case whole
    /// Each byte old or new, at a length between the two.
    case bytes
    /// The old state, the new one, or one that this creates.
    case also(@Sendable (PathName) throws(Errno) -> Void)
  }

  init(
    _ name: String, _ outcome: Outcome = .whole, leftovers: Set<String> = [], passedOver: Set<String> = [],
    prepare: @escaping @Sendable (PathName) throws(Errno) -> Void = { (_) throws(Errno) in },
    run: @escaping @Sendable (PathName) throws(Errno) -> Void
  ) {
    self.name = name
    self.outcome = outcome
    self.leftovers = leftovers
    self.passedOver = passedOver
    self.prepare = prepare
    self.run = run
  }

  /// A name whose backing name is a hash, with a sidecar.
  static func long(_ letter: String) -> String { String(repeating: letter, count: 200) }

  /// Creates the directory with the neighbours that every operation has, and what the operation needs.
  func makePlace(_ directory: PathName) throws(Errno) {
    try directory.makeDirectory()
    try directory.appending("neighbour").write(pattern(1, count: 5000))
    try directory.appending(Self.long("n")).write(pattern(2, count: 33))
    try directory.appending("inhabited").makeDirectory()
    try directory.appending("inhabited").appending(Self.long("i")).write(pattern(3, count: 4099))
    try prepare(directory)
  }

  /// The states of the directory before and after, and the permitted states in between.
  struct States {
    let old: Snapshot
    let new: Snapshot
    let between: Snapshot?
  }

  /// What the operation does without failures, in a directory created for this.
  func states(at directory: PathName) throws(Errno) -> States {
    try makePlace(directory)
    let old = try Snapshot(of: directory)
    try run(directory)
    let new = try Snapshot(of: directory)
    guard case .also(let make) = outcome else { return States(old: old, new: new, between: nil) }
    let other = PathName(bytes: Array(directory.bytes) + Array(".between".utf8))
    try makePlace(other)
    try make(other)
    return States(old: old, new: new, between: try Snapshot(of: other))
  }

  /// Whether this state is permitted after the operation failed or was interrupted.
  func allows(_ found: Snapshot, _ states: States) -> Bool {
    if found == states.old || found == states.new || found == states.between { return true }
    if case .bytes = outcome { return found.isBetween(states.old, states.new) }
    return false
  }
}

extension FaultOperation {
  static let all = creations + renames + removals + classes + resizings + writings + attributes

  /// Whether a test tries every operation, as `scripts/faults.sh` requests.
  static let isThorough = unsafe getenv("PROTECTFS_ALL_FAULTS") != nil

  /// Every `step`th operation, the same in each run.
  static func some(every step: Int) -> [FaultOperation] {
    isThorough ? all : all.enumerated().filter { $0.offset % step == 0 }.map(\.element)
  }

  private static let sidecar: Set = ["orphan-sidecar"]

  static let creations: [FaultOperation] = ["short", long("l")].flatMap { (name) -> [FaultOperation] in
    let sidecar: Set<String> = name == "short" ? [] : ["orphan-sidecar"]
    let length = name == "short" ? "short" : "long"
    return [
      .init("create, \(length) name", leftovers: sidecar.union(["empty-file-without-record"])) { d throws(Errno) in
        _ = try OpenFile(d.appending(name), O_CREAT | O_EXCL | O_WRONLY)
      },
      .init("mknod of a file, \(length) name", leftovers: sidecar.union(["empty-file-without-record"])) {
        d throws(Errno) in try d.appending(name).makeNode(mode: 0o100600)
      },
      .init("mkdir, \(length) name", leftovers: sidecar.union(["empty-directory-without-record"])) {
        d throws(Errno) in try d.appending(name).makeDirectory(mode: 0o700)
      },
      .init("symlink, \(length) name", leftovers: sidecar) { d throws(Errno) in
        try d.appending(name).makeSymbolicLink(to: "neighbour")
      },
      .init("mkfifo, \(length) name", leftovers: sidecar) { d throws(Errno) in
        try d.appending(name).makeNode(mode: 0o010640)
      },
      .init("link, \(length) name", leftovers: sidecar) { d throws(Errno) in
        try d.appending("neighbour").link(as: d.appending(name))
      },
    ]
  }

  private static func rename(
    _ name: String, _ old: String, _ new: String, flags: RenameFlags = [], outcome: Outcome = .whole,
    prepare: @escaping @Sendable (PathName) throws(Errno) -> Void
  ) -> FaultOperation {
    .init(
      name, outcome, leftovers: sidecar.union(["rekey-pending"]), passedOver: rekey.union(["unlinkat"]),
      prepare: prepare
    ) { d throws(Errno) in
      try d.appending(old).rename(to: d.appending(new), flags: flags)
    }
  }

  @Sendable private static func writeOld(_ d: PathName) throws(Errno) { try d.appending("old").write("old") }
  @Sendable private static func writeOldLong(_ d: PathName) throws(Errno) { try d.appending(long("o")).write("old") }
  @Sendable private static func writeBoth(_ d: PathName) throws(Errno) {
    try writeOld(d)
    try d.appending("new").write("replaced")
    try d.appending("new").setProtectionClass(.complete)
  }
  @Sendable private static func writeBothLong(_ d: PathName) throws(Errno) {
    try writeOldLong(d)
    try d.appending(long("p")).write("replaced")
  }

  static let renames: [FaultOperation] = [
    rename("rename, short to short", "old", "new", prepare: writeOld),
    rename("rename, short to long", "old", long("p"), prepare: writeOld),
    rename("rename, long to long", long("o"), long("p"), prepare: writeOldLong),
    rename("rename, long to short", long("o"), "new", prepare: writeOldLong),
    rename("rename, long over long", long("o"), long("p"), prepare: writeBothLong),
    rename("rename without replacing", "old", long("p"), flags: .noReplace, prepare: writeOld),
    rename("rename of a directory, long to long", long("o"), long("p")) { d throws(Errno) in
      try d.appending(long("o")).makeDirectory()
      try d.appending(long("o")).appending("in it").write("x")
    },
    rename("rename into another directory", "old", "inhabited/" + long("p"), prepare: writeOld),
    // The new file has the class of the file that it replaces before it does so.
    rename(
      "rename over a chosen class", "old", "new",
      outcome: .also { d throws(Errno) in try d.appending("old").setProtectionClass(.complete) }, prepare: writeBoth),
    rename("exchange, short and long", "old", long("p"), flags: .exchange) { d throws(Errno) in
      try writeOld(d)
      try d.appending(long("p")).makeDirectory()
    },
  ]

  static let removals: [FaultOperation] = [
    .init("unlink, short name", prepare: writeOld) { d throws(Errno) in try d.appending("old").unlink() },
    .init("unlink, long name", leftovers: sidecar, passedOver: ["unlinkat"], prepare: writeOldLong) {
      d throws(Errno) in try d.appending(long("o")).unlink()
    },
    .init("unlink of one of two names", leftovers: sidecar, passedOver: ["unlinkat"]) { d throws(Errno) in
      try writeOld(d)
      try d.appending("old").link(as: d.appending(long("o")))
    } run: { d throws(Errno) in
      try d.appending(long("o")).unlink()
    },
    .init("rmdir, short name") { d throws(Errno) in
      try d.appending("old").makeDirectory()
    } run: { d throws(Errno) in
      try d.appending("old").removeDirectory()
    },
    .init("rmdir, long name", leftovers: sidecar, passedOver: ["unlinkat"]) { d throws(Errno) in
      try d.appending(long("o")).makeDirectory()
    } run: { d throws(Errno) in
      try d.appending(long("o")).removeDirectory()
    },
  ]

  /// Operations that give a file a new key afterwards, and are tried again.
  private static let rekey: Set = [
    "pwrite", "pread", "fsync", "fdatasync", "ftruncate", "fsetxattr", "fgetxattr", "flistxattr", "lseek", "openat",
    "statx", "utimensat", "fchmod", "unlinkat",
  ]

  private static func setClass(_ name: String, _ object: String, _ fileClass: ProtectionClass) -> FaultOperation {
    .init(
      "set class of \(name) to \(fileClass.letter)", leftovers: object == "file" ? ["rekey-pending"] : [],
      passedOver: object == "file" ? rekey : []
    ) { d throws(Errno) in
      try d.appending("file").write(pattern(4, count: 100))
      try d.appending("directory").makeDirectory()
    } run: { d throws(Errno) in
      try d.appending(object).setProtectionClass(fileClass)
    }
  }

  static let classes: [FaultOperation] = [
    setClass("a file", "file", .complete),
    setClass("a file", "file", .completeUnlessOpen),
    setClass("a directory", "directory", .none),
    .init("take a chosen class back") { d throws(Errno) in
      try d.appending("file").write(pattern(4, count: 100))
      try d.appending("file").setProtectionClass(.complete)
    } run: { d throws(Errno) in
      try d.appending("file").removeExtendedAttribute(PathName.classAttribute)
    },
  ]

  static let attributes: [FaultOperation] = [
    .init("set a user attribute") { d throws(Errno) in
      try d.appending("neighbour").setExtendedAttribute("user.note", to: Array("new".utf8))
    },
    .init("set a user attribute of a directory") { d throws(Errno) in
      try d.appending("inhabited").setExtendedAttribute("user.note", to: Array("new".utf8))
    },
    .init("replace a user attribute") { d throws(Errno) in
      try d.appending("neighbour").setExtendedAttribute("user.note", to: Array("old".utf8))
    } run: { d throws(Errno) in
      try d.appending("neighbour").setExtendedAttribute("user.note", to: [UInt8](repeating: 1, count: 200))
    },
    .init("remove a user attribute") { d throws(Errno) in
      try d.appending("neighbour").setExtendedAttribute("user.note", to: Array("old".utf8))
    } run: { d throws(Errno) in
      try d.appending("neighbour").removeExtendedAttribute("user.note")
    },
    .init("chmod") { d throws(Errno) in try d.appending("neighbour").setMode(0o640) },
    .init("chmod of a directory") { d throws(Errno) in try d.appending("inhabited").setMode(0o750) },
  ]
}
