import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Replaces an item by another, atomically.
package struct ItemReplacement {
  private let original: String
  private let new: String
  private let backupName: PathName?
  private let takesOverMetadata: Bool

  package init(of original: String, by new: String, backupName: String?, takesOverMetadata: Bool) {
    self.original = original
    self.new = new
    self.backupName = backupName.map { PathName($0) }
    self.takesOverMetadata = takesOverMetadata
  }

  package func run() throws(CocoaError) {
    let old = try place(of: original)
    let item = try place(of: new)
    do throws(CocoaError) {
      try replace(old, by: item)
    } catch {
      guard ReplacedItem.isElsewhere(error) else { throw error }
      let staging = try translating(.writing, original) { () throws(Errno) in try StagingDirectory(for: original) }
      // A class that the new item has inherited there says nothing here, where it gets that of the old one.
      let rules = ItemCopy.Rules(isMove: true, keepsInheritedClasses: !takesOverMetadata)
      let moved = try ItemCopy(rules).run(from: new, to: staging.itemPath)
      if backupName == nil {
        try replace(old, by: place(of: staging.itemPath))
      } else {
        try replaceKeeping(old, byItemIn: staging)
      }
      try moved.remove(item.name, in: item.directory, at: new)
    }
  }

  /// The old item is exchanged for the new one, and must not come where everything is removed in the end: the new one
  /// gets a name of its own first.
  private func replaceKeeping(_ old: ReplacedItem, byItemIn staging: StagingDirectory) throws(CocoaError) {
    let copy = try place(of: staging.itemPath)
    let name = PathName(".\(UUID().uuidString).replaced")
    try translating(.writing, original) { () throws(Errno) in
      try staging.directory.rename(staging.name, to: name, in: staging.parent, flags: .noReplace)
    }
    do throws(CocoaError) {
      try replace(old, by: place(of: "\(PathName(descriptor: staging.parent))/\(name)"))
    } catch {
      // Unless it is the old one that has the name, and could not be given its own again.
      if let status = try? staging.parent.status(of: name), status.isSame(as: copy.status) {
        try? staging.parent.removeTree(name)
      }
      throw error
    }
  }

  private func place(of path: String) throws(CocoaError) -> ReplacedItem {
    try translating(.reading, path) { () throws(Errno) in try ReplacedItem(path) }
  }

  private func replace(_ old: ReplacedItem, by new: ReplacedItem) throws(CocoaError) {
    try translating(.writing, original) { () throws(Errno) in
      try requireDistinct(old, new)
      if takesOverMetadata { try new.takeOverMetadata(of: old) }
      try new.synchronize()
      if old.status.type == .directory || new.status.type == .directory {
        try exchange(old, with: new)
      } else {
        let backup = try backupName.map { (name) throws(Errno) in try keep(old, as: name) }
        do throws(Errno) {
          try new.directory.rename(new.name, to: old.name, in: old.directory)
        } catch {
          backup?.undo()
          throw error
        }
      }
      if let directory = try? old.directory.open(".", [.readOnly, .directory]) { try? directory.synchronize() }
    }
  }

  /// - Throws: `EINVAL` for names that stand for the same item, of which one would be removed; `EXDEV` if the items are
  ///   not on one mount.
  private func requireDistinct(_ old: ReplacedItem, _ new: ReplacedItem) throws(Errno) {
    guard !old.status.isSame(as: new.status) else { throw .invalidArgument }
    if let backupName {
      guard backupName.isEntryName, backupName != old.name else { throw .invalidArgument }
      let isInOne = try old.directory.status().isSame(as: new.directory.status())
      guard !isInOne || backupName != new.name else { throw .invalidArgument }
      // What has the name of the backup goes, with all that is in it.
      if let replaced = try? old.directory.status(of: backupName), try new.directory.isInside(replaced) {
        throw .invalidArgument
      }
    }
    guard old.mount == new.mount else { throw .improperLink }
  }

  /// Gives a file a second name. What had the name stays aside until the file is replaced.
  private func keep(_ old: ReplacedItem, as backupName: PathName) throws(Errno) -> ReplacedBackup {
    let staging = try StagingDirectory(for: backupPath(old, backupName))
    do throws(Errno) {
      try old.directory.link(old.name, to: staging.name, in: staging.directory)
    } catch {
      // Of another user's file (protected_hardlinks), or where there are no hard links.
      do throws(CocoaError) {
        try ItemCopy(ItemCopy.Rules(isMove: true)).run(from: original, to: staging.itemPath)
      } catch {
        throw .notPermitted
      }
    }
    do throws(Errno) {
      // A rename over it would pass its class on.
      try staging.moveItem(mayReplace: false)
      return ReplacedBackup(staging, hasFormer: false)
    } catch .fileExists {
      try staging.directory.rename(staging.name, to: backupName, in: staging.parent, flags: .exchange)
      return ReplacedBackup(staging, hasFormer: true)
    }
  }

  /// Exchanges the names of two items of which one is a directory, and then takes the old one away. What of it cannot
  /// be removed stays at the place of the new one.
  private func exchange(_ old: ReplacedItem, with new: ReplacedItem) throws(Errno) {
    func exchange() throws(Errno) {
      try new.directory.rename(new.name, to: old.name, in: old.directory, flags: .exchange)
    }
    guard let backupName else {
      try exchange()
      try? new.directory.removeTree(new.name)
      return
    }
    let staging = try StagingDirectory(for: backupPath(old, backupName))
    let hasFormer = try takeAside(backupName, to: staging)
    do throws(Errno) {
      try exchange()
      do throws(Errno) {
        try new.directory.rename(new.name, to: backupName, in: old.directory, flags: .noReplace)
      } catch {
        try exchange()
        throw error
      }
    } catch {
      if hasFormer { try? staging.moveItem(mayReplace: false) }
      throw error
    }
  }

  private func backupPath(_ old: ReplacedItem, _ backupName: PathName) -> String {
    "\(PathName(descriptor: old.directory))/\(backupName)"
  }

  /// Moves what has the name of the backup to a staging directory, which removes it. Returns whether there was
  /// anything.
  private func takeAside(_ name: PathName, to staging: StagingDirectory) throws(Errno) -> Bool {
    do throws(Errno) {
      try staging.parent.rename(name, to: staging.name, in: staging.directory, flags: .noReplace)
      return true
    } catch .noSuchFileOrDirectory {
      return false
    }
  }
}

/// The backup of a file that is not replaced yet, and what had its name before, if anything: that is removed when the
/// object ends.
private struct ReplacedBackup {
  private let staging: StagingDirectory
  private let hasFormer: Bool

  init(_ staging: StagingDirectory, hasFormer: Bool) {
    self.staging = staging
    self.hasFormer = hasFormer
  }

  /// Restores what there was.
  func undo() {
    if hasFormer {
      try? staging.directory.rename(staging.name, to: staging.name, in: staging.parent, flags: .exchange)
    } else {
      try? staging.parent.unlink(staging.name)
    }
  }
}

/// An item that replaces another or is replaced, and its directory, both opened without access (`O_PATH`).
final class ReplacedItem {
  let directory: Descriptor
  let name: PathName
  let status: Status
  /// The mount that the directory is on.
  let mount: String?
  private let item: Descriptor

  init(_ path: String) throws(Errno) {
    directory = try Descriptor.open(PathName(FileManager.parent(of: path)), [.path, .directory])
    name = PathName(URL(fileURLWithPath: path).lastPathComponent)
    mount = try MountedFileSystem.identifier(ofMountOf: directory)
    item = try directory.open(name, [.path, .noFollow])
    status = try item.status()
  }

  /// Whether a replacement failed since the two items are not on one file system, or not on one mount of it.
  static func isElsewhere(_ error: CocoaError) -> Bool {
    (unsafe error.userInfo[NSUnderlyingErrorKey] as? POSIXError)?.code == .EXDEV
  }

  /// Makes the item durable before it replaces another, and a directory with everything in it: by syncfs(2) where that
  /// does it, which a mount does not get. There what may not be opened, since it is locked, is left out.
  func synchronize() throws(Errno) {
    let path = PathName(descriptor: item)
    switch status.type {
    case .regular:
      do throws(Errno) {
        try Descriptor.open(path, [.readOnly]).synchronize()
      } catch .permissionDenied {
        // Neither may be opened: it is as durable as it is.
        if let parent = try? directory.open(".", [.readOnly, .directory]) { try parent.writeFileSystemBack() }
      }
    case .directory:
      if let tree = try? Descriptor.open(path, [.readOnly, .directory]), tree.isSynchronizedWhole {
        return try tree.synchronizeFileSystem()
      }
      try synchronizeOneByOne(path)
    default: break
    }
  }

  private func synchronizeOneByOne(_ path: PathName) throws(Errno) {
    let failure = RankedMutex<Errno?>(.commandProgress, nil)
    DirectoryTree.visit("\(path)/.") { (_, error) in
      if error != .permissionDenied { failure.withLock { $0 = $0 ?? error } }
    } _: { (item, _) throws(Errno) in
      try Descriptor.open(item, [.readOnly]).synchronize()
    }
    if let error = failure.withLock({ $0 }) { throw error }
    if let directory = try? Descriptor.open(path, [.readOnly]) { try directory.synchronize() }
  }

  /// Takes over from an item of the same type: permissions and ACLs, owner, the class unless this one has an explicit
  /// one, and encrypted fields that this one does not have.
  func takeOverMetadata(of old: ReplacedItem) throws(Errno) {
    guard status.type == old.status.type, status.type == .regular || status.type == .directory else { return }
    if status.user != old.status.user || status.group != old.status.group {
      try? item.setOwner(user: old.status.user, group: old.status.group)
    }
    let permissions = old.status.permissions & 0o1777
    let lists = try AccessLists(of: old.item)
    let others = try AccessLists(of: item)
    if !lists.isEmpty || !others.isEmpty || status.permissions != permissions {
      try item.setModeThroughPath(lists.setAccess(of: item, permissions, isReplacing: true))
      if status.type == .directory { try lists.setStandard(of: item, isReplacing: true) }
    }
    let devices = try ProtectedDevices()
    guard devices.contains(status), devices.contains(old.status) else { return }
    let protection = try ItemProtection(of: old.item)
    let names = try PathName(descriptor: item).attributeNames()
    // The fields come after the class: they are encrypted under a key of it.
    let opened = SharedDescriptor(try Descriptor(duplicating: item.rawValue))
    try ReplacedClass(protection, in: old.directory).assign(to: opened)
    try protection.setFields(of: item, except: names)
  }
}
