import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// Calls on files in a stand-in. Each throws what a mount would, or returns `nil` if the call is to be made.
extension StandIn {
  func open(_ item: StandInItem) throws(Errno) -> Int? {
    if item.isRegular, let record = try record(of: item) { try require(.open, record.protectionClass) }
    return nil
  }

  func create(in directory: StandInItem) throws(Errno) -> Int? {
    if let record = try record(of: directory) { try require(.create, record.protectionClass) }
    return nil
  }

  func created(_ item: StandInItem) throws(Errno) -> Int? {
    try update(item, for: lockState)
    return nil
  }

  func unlink(_ item: StandInItem) throws(Errno) -> Int? {
    guard item.isRegular else { return nil }
    for record in [try record(of: item), try record(of: item.parent)] {
      if let record { try require(.remove, record.protectionClass) }
    }
    return nil
  }

  /// Files of class B can be used until they are closed: whoever has one open opened it while that was allowed.
  func transfer(_ item: StandInItem) throws(Errno) -> Int? {
    guard item.isRegular, lockState != .unlocked, let record = try record(of: item) else { return nil }
    guard ProtectionPolicy.access(for: .read, on: record.protectionClass, in: lockState) != .denied else {
      throw .permissionDenied
    }
    return nil
  }

  /// The permissions that a locked file seems to have.
  func permissions(of item: StandInItem) -> UInt32 { withheld(item)?.mode ?? item.status.permissions }

  func access(_ item: StandInItem, _ mode: UInt32) throws(Errno) -> Int? {
    guard let withheld = withheld(item) else { return nil }
    guard item.permits(mode, with: withheld.mode) else { throw .permissionDenied }
    return 0
  }

  /// A locked file gets its permissions when it is unlocked.
  func changeMode(of item: StandInItem, to mode: UInt32) throws(Errno) -> Int? {
    let isWithheld = state.withLock { state in
      guard state.withheld[item.identity] != nil else { return false }
      state.withheld[item.identity]?.mode = mode & 0o7777
      return true
    }
    return isWithheld ? 0 : nil
  }

  /// An item gets a name. A file that replaces one whose class was set takes that over, as on a mount.
  ///
  /// - Parameter replaced: what has the name.
  func move(_ item: StandInItem, _ flags: RenameFlags, replacing replaced: StandInItem?) throws(Errno) -> Int? {
    try keepClass(of: item)
    guard let replaced else { return nil }
    if flags.contains(.exchange) { try keepClass(of: replaced) }
    guard flags.isDisjoint(with: [.exchange, .noReplace]), item.isRegular, replaced.isRegular,
      let new = try record(of: item), let old = try record(of: replaced)
    else { return nil }
    if replaced.status.size > 0 {
      if item.status.size == 0 { try require(.open, old.protectionClass) }
      // One that could be made now, and whose class nobody set.
      let isNew = !new.isExplicit && (try? require(.create, new.protectionClass)) != nil
      if isNew { try require(.remove, old.protectionClass) }
    }
    guard old.isExplicit, !new.isExplicit else { return nil }
    if new.protectionClass == old.protectionClass {
      // As `BackingTree.makeClassExplicit`.
      try require(.rewrapTo, old.protectionClass)
      try store(old, in: item)
    } else {
      try assign(old.protectionClass, to: item)
    }
    return nil
  }
}
