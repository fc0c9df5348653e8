import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Makes the copy of one item.
struct CopyStep {
  private let rules: ItemCopy.Rules
  private let devices: ProtectedDevices
  /// Where files of an explicit class are created, in that class; `nil` if the target is not on a mount.
  private let classed: StagingDirectory?
  /// Whether files are moved from there to their directories.
  private let isTree: Bool
  /// Whether the target is on a mount. A mount makes one file after the other durable: it gets no syncfs(2).
  var isTargetProtected: Bool { classed != nil }

  /// - Parameter staging: where the copy is made.
  init(
    _ rules: ItemCopy.Rules, in staging: StagingDirectory, for target: String, isTree: Bool
  ) throws(Errno) {
    self.rules = rules
    self.isTree = isTree
    devices = try ProtectedDevices()
    let isProtected = devices.contains(try staging.directory.status())
    classed = !isProtected ? nil : isTree ? try StagingDirectory(for: target) : staging
  }

  /// Copies anything but a directory.
  func copy(
    _ item: CopiedItem, _ name: PathName, into target: borrowing Descriptor, _ paths: CopyPaths
  ) throws(CopyFailure) {
    switch item.status.type {
    case .regular: try copyFile(item, name, into: target, paths)
    case .symbolicLink:
      let link = try paths.reading { () throws(Errno) in
        PathName(bytes: try item.opened.descriptor.target(ofSymbolicLink: ""))
      }
      try paths.writing { () throws(Errno) in try target.makeSymbolicLink(name, target: link) }
    case .fifo:
      try paths.writing { () throws(Errno) in try target.makeNode(name, mode: item.status.mode & 0o170777, device: 0) }
    default: throw CopyFailure(CocoaError(.noSuchAddressOrDevice, .reading, path: paths.source))
    }
  }

  // MARK: Files

  private func copyFile(
    _ item: CopiedItem, _ name: PathName, into target: borrowing Descriptor, _ paths: CopyPaths
  ) throws(CopyFailure) {
    let source = try paths.reading { () throws(Errno) in
      try Descriptor.open(PathName(descriptor: item.opened.descriptor), [.readOnly])
    }
    let protection = try protection(of: item, paths)
    let wanted = try paths.writing { () throws(Errno) in try protectionClass(protection, in: target) }
    do throws(CopyFailure) {
      try paths.writing(asking: wanted) { () throws(Errno) in
        let file = try create(name, in: target, wanted)
        if isTargetProtected { try protection?.setFields(of: file) }
        try file.copyContents(of: source)
        try setAttributes(of: file, from: item.status)
        let lists = try AccessLists(of: item.opened.descriptor)
        try file.setMode(lists.setAccess(of: file, item.status.permissions & 0o777))
        if !isTree || isTargetProtected { try file.synchronize() }
        if let classed, wanted != nil, isTree {
          try classed.directory.rename(classed.name, to: name, in: target, flags: .noReplace)
        }
      }
    } catch {
      // The copy may go on with other items.
      try? target.removeFile(name)
      try? classed?.directory.removeFile(classed?.name ?? name)
      try paths.reading { () throws(Errno) in try requireReadable(source) }
      throw error
    }
  }

  /// Creates the file, of the wanted class before its first byte.
  private func create(
    _ name: PathName, in target: borrowing Descriptor, _ wanted: ProtectionClass?
  ) throws(Errno) -> Descriptor {
    guard let classed, let wanted else {
      return try target.open(name, [.writeOnly, .create, .exclusive, .noFollow], mode: 0o600)
    }
    try classed.assign(wanted)
    return try classed.makeFile(in: wanted)
  }

  /// - Throws: the error of reading from the file: its class was locked while it was copied, for example.
  private func requireReadable(_ file: borrowing Descriptor) throws(Errno) {
    var byte: UInt8 = 0
    _ = try unsafe withUnsafeMutableBytes(of: &byte) { (buffer) throws(Errno) in
      try unsafe file.read(into: buffer, at: 0)
    }
  }

  // MARK: Directories

  /// Makes the copy of a directory, empty, for which no one else has permissions yet.
  func makeDirectory(
    _ name: PathName, like item: CopiedItem, in target: borrowing Descriptor, _ paths: CopyPaths
  ) throws(CopyFailure) -> CopiedDirectory {
    let protection = try protection(of: item, paths)
    return try paths.writing { () throws(Errno) in
      try target.makeDirectory(name, mode: 0o700)
      let made = try target.open(name, [.path, .directory, .noFollow])
      if let protection, isTargetProtected {
        if let wanted = try protectionClass(protection, in: target) {
          try PathName(descriptor: made).setAttribute(ProtectionClass.attribute, to: Array(wanted.name.utf8))
        }
        try protection.setFields(of: made)
      }
      let lists = try AccessLists(of: item.opened.descriptor)
      let permissions = try lists.setAccess(of: made, item.status.permissions & 0o1777)
      if !lists.isEmpty { try made.setModeThroughPath(0o700) }
      return CopiedDirectory(
        source: item.opened, target: made, status: item.status, lists: lists, permissions: permissions)
    }
  }

  /// Gives a directory its permissions and times, when all that is in it has been copied.
  ///
  /// - Parameter staysWritable: the owner may write it, whatever permissions it has.
  func finish(_ directory: CopiedDirectory, staysWritable: Bool) throws(Errno) {
    if isTargetProtected { try directory.target.open(".", [.readOnly, .directory]).synchronize() }
    try directory.lists.setStandard(of: directory.target)
    try setAttributes(of: directory.target, from: directory.status)
    let modification = TimeChange.set(
      seconds: directory.status.modification_seconds, nanoseconds: Int64(directory.status.modification_nanoseconds))
    try directory.target.setTimes(access: .leave, modification: modification)
    try directory.target.setModeThroughPath(directory.permissions | (staysWritable ? 0o200 : 0))
  }

  // MARK: Protection and attributes

  /// What protects an item; `nil` if it is not on a mount.
  private func protection(of item: CopiedItem, _ paths: CopyPaths) throws(CopyFailure) -> ItemProtection? {
    guard devices.contains(item.status) else { return nil }
    let protection = try paths.reading { () throws(Errno) in try ItemProtection(of: item.opened.descriptor) }
    guard isTargetProtected || rules.allowsPlaintext || !protection.needsMount else {
      throw CopyFailure(.wouldBePlaintext(paths.source, paths.target))
    }
    return protection
  }

  /// The class that the copy gets explicitly; `nil` if it inherits that of its directory.
  private func protectionClass(
    _ protection: ItemProtection?, in target: borrowing Descriptor
  ) throws(Errno) -> ProtectionClass? {
    guard let protection, isTargetProtected else { return nil }
    if protection.isExplicit { return protection.protectionClass }
    guard rules.isMove, rules.keepsInheritedClasses else { return nil }
    let inherited = try PathName(descriptor: target).attribute(ProtectionClass.attribute)
    return inherited == Array(protection.protectionClass.name.utf8) ? nil : protection.protectionClass
  }

  /// Sets owner and times of what is moved, as far as permitted.
  private func setAttributes(of copy: borrowing Descriptor, from status: Status) throws(Errno) {
    guard rules.isMove else { return }
    if status.user != ProtectfsIO.Process.identity.user { try? copy.setOwner(user: status.user, group: status.group) }
    try copy.setTimes(
      access: .set(seconds: status.access_seconds, nanoseconds: Int64(status.access_nanoseconds)),
      modification: .set(
        seconds: status.modification_seconds, nanoseconds: Int64(status.modification_nanoseconds)))
  }
}
