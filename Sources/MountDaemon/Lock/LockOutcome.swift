import ProtectfsClient
import ProtectfsPolicy
import SystemPackage

/// What a store that did not answer or failed, or writes that went on, have left undone when a lock had taken effect.
struct LockOutcome: Sendable {
  /// A file, told without its name: what the daemon says of a lock is for everyone who may read its log.
  struct File: Hashable, Sendable {
    let inode: UInt64
    let fileClass: ProtectionClass

    var description: String { "inode \(inode) (class \(fileClass.letter))" }
  }

  /// Files whose writers were told of success before the store was, and the store was not in time.
  var unwritten: Set<File> = []
  /// Files whose writers were told of success, and writes to which the store then failed, by a full disk for example.
  var failed: [File: Errno] = [:]
  /// Files of which the kernel has not dropped all pages yet.
  var undropped: Set<File> = []
  /// Files to which a write(2) that had begun went on for longer than a lock waits. Their pages are dropped again until
  /// it ends.
  var beingWritten: Set<File> = []
  /// A rotation that changes the keybag has the keybag key in memory still.
  var keepsKeybagKey = false

  /// Whether neither pages nor keys of what was locked are in memory any more.
  var hasTakenAll: Bool { undropped.isEmpty && beingWritten.isEmpty && !keepsKeybagKey }

  /// What goes on.
  var ongoing: LockOutcome { LockOutcome(beingWritten: beingWritten) }

  /// Adds what the same lock has left undone of other classes.
  mutating func add(_ other: LockOutcome) {
    unwritten.formUnion(other.unwritten)
    failed.merge(other.failed) { $1 }
    undropped.formUnion(other.undropped)
    beingWritten.formUnion(other.beingWritten)
    keepsKeybagKey = other.keepsKeybagKey
  }

  /// The error for who waited for the lock; `nil` where nothing is left undone.
  var error: ControlError? {
    var parts: [String] = []
    if !unwritten.isEmpty || !undropped.isEmpty || keepsKeybagKey { parts.append("its backing store does not answer") }
    if !unwritten.isEmpty { parts.append("these files may have lost writes: \(Self.list(unwritten))") }
    if !failed.isEmpty {
      let reasons = Set(failed.values.map { "\($0)" }).sorted().joined(separator: "; ")
      parts.append(
        "its backing store failed (\(reasons)), and writes to these files are lost: \(Self.list(failed.keys))")
    }
    if !undropped.isEmpty { parts.append("pages of these files are still in memory: \(Self.list(undropped))") }
    if keepsKeybagKey { parts.append("a rotation still has the key of the keybag in memory") }
    if !beingWritten.isEmpty {
      parts.append(
        "a write to each of these files was under way, loses what it has not written yet, and may leave it in memory "
          + "until it ends: \(Self.list(beingWritten))")
    }
    if parts.isEmpty { return nil }
    return ControlError(.writesLost, "the mount is locked, but " + parts.joined(separator: "; "))
  }

  /// As many as fit into a message with ease.
  private static func list(_ files: some Collection<File>) -> String {
    let sorted = files.sorted { $0.inode < $1.inode }
    let named = sorted.prefix(200).map(\.description).joined(separator: ", ")
    return sorted.count <= 200 ? named : "\(named), and \(sorted.count - 200) more, which the log names"
  }
}
