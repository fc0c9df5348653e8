import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The class of a file, and whether it was chosen or inherited.
package struct FileClass: Hashable, Sendable {
  let name: [UInt8]
  let isExplicit: Bool

  package static let attribute = PathName(ProtectionClass.attributeName)

  init(name: [UInt8], isExplicit: Bool) {
    self.name = name
    self.isExplicit = isExplicit
  }

  /// The class of a file on a mount, which needs no key.
  init(of path: PathName) throws(Errno) {
    name = try path.attribute(Self.attribute)
    isExplicit = try path.attributeNames().contains(Self.attribute)
  }

  func assign(to path: PathName) throws(Errno) {
    try path.setAttribute(Self.attribute, to: name)
    // The class stays, and counts as inherited.
    if !isExplicit { try path.removeAttribute(Self.attribute) }
  }

  /// Whether something in this class is locked where it would not be in another. Open files of class B are not.
  func protectsMore(than other: FileClass) -> Bool {
    guard let own = protectionClass, let other = other.protectionClass else { return false }
    return ProtectionPolicy.protects(own, moreThan: other)
  }

  private var protectionClass: ProtectionClass? { ProtectionClass(name: String(decoding: name, as: UTF8.self)) }
}

/// What a copy does not have of its source.
package enum Omission: Hashable, Sendable {
  /// What has this backing name in a directory: the name cannot be decrypted, or is not the store's.
  case name(PathName)
  /// An extended attribute or ACL, by what came of reading or setting it. A damaged one has its stored name.
  case attribute(PathName, Errno)
  /// Owner and group, which only root can give.
  case owner
  /// What has the name that a restore uses until a copy is complete.
  case unfinishedCopy
  /// The class of what was there already, in a class that protects less.
  case protectionClass
}

/// Owner, permissions, times, extended attributes and ACLs of a file or directory, as they were at one moment.
struct FileMetadata: Sendable {
  private typealias List = [(name: PathName, value: [UInt8])]

  let status: Status
  /// `nil` where the source knows no classes.
  private(set) var fileClass: FileClass?
  /// What could not be read, or cannot be given by this user.
  private(set) var omissions: [Omission] = []
  /// Those of users.
  private var attributes: List = []
  private var accessLists: List = []
  /// Those that only root can give.
  private var privileged: List = []

  /// Takes the metadata of something that was opened, with or without access.
  init(of item: any SourceItem) throws(Errno) {
    status = try item.status()
    let names = try Self.attributeNames(of: item)
    omissions = names.undecodable.map { .attribute($0, .ioError) }
    if status.type == .regular || status.type == .directory { fileClass = try fileClass(of: item, names) }
    for name in names.usable where name != FileClass.attribute {
      let text = name.description
      if text.hasPrefix("user.") {
        if let value = try read(name, of: item) { attributes.append((name, value)) }
      } else if text.hasPrefix(Self.accessListPrefix) {
        if let value = try read(name, of: item) { accessLists.append((name, value)) }
      } else if text.hasPrefix("trusted.") || text.hasPrefix("security."), !Self.isOfSystem(text) {
        guard Process.identity.user == 0 else {
          omissions.append(.attribute(name, .notPermitted))
          continue
        }
        if let value = try read(name, of: item) { privileged.append((name, value)) }
      }
    }
  }

  /// Returns the value of an attribute; `nil` for one that is gone since it was listed, or that cannot be read.
  ///
  /// - Throws: what prevents a copy of the contents too.
  private mutating func read(_ name: PathName, of item: any SourceItem) throws(Errno) -> [UInt8]? {
    do throws(Errno) {
      return try item.attribute(name)
    } catch {
      switch error {
      case .noData: return nil
      case .ioError, .permissionDenied, .notPermitted, .notSupported:
        omissions.append(.attribute(name, error))
        return nil
      case .noKey, .keyRevoked: throw error
      default:
        guard !name.description.hasPrefix("user.") else { throw error }
        omissions.append(.attribute(name, error))
        return nil
      }
    }
  }

  /// One that was inherited is not listed: a store, or its mount, answers all the same.
  private mutating func fileClass(of item: any SourceItem, _ names: SourceNames) throws(Errno) -> FileClass? {
    if names.usable.contains(FileClass.attribute) {
      return try read(FileClass.attribute, of: item).map { FileClass(name: $0, isExplicit: true) }
    }
    do throws(Errno) {
      return FileClass(name: try item.attribute(FileClass.attribute), isExplicit: false)
    } catch {
      // Whoever may not ask for it may not read the contents either.
      guard [.noData, .notSupported, .permissionDenied].contains(error) else { throw error }
      return nil
    }
  }

  private static let accessListPrefix = "system.posix_acl_"

  /// Whether an attribute is a label that the system gives to files, on each machine by rules of its own.
  private static func isOfSystem(_ name: String) -> Bool {
    ["selinux", "SMACK64", "apparmor", "ima", "evm"].contains { name.hasPrefix("security.\($0)") }
  }

  private static func attributeNames(of item: any SourceItem) throws(Errno) -> SourceNames {
    do throws(Errno) {
      return try item.attributeNames()
    } catch {
      guard error == .notSupported || error == .notSupportedOnSocket else { throw error }
      return SourceNames()
    }
  }

  /// The class that a copy is to be given in a directory; `nil` for what the directory gives it. One that was inherited
  /// counts where the directory's protects less.
  func fileClass(in directory: SharedDescriptor) -> FileClass? {
    guard let fileClass, !fileClass.isExplicit else { return fileClass }
    // One that may not be asked for is not relied on.
    let given = try? FileClass(of: PathName(descriptor: directory.descriptor))
    return given.map { fileClass.protectsMore(than: $0) } == false ? nil : fileClass
  }

  /// The class of a copy that replaces a file: that file's, unless it was inherited there and this protects more.
  func fileClass(replacing old: FileClass) -> FileClass {
    guard let fileClass, fileClass.isExplicit || !old.isExplicit && fileClass.protectsMore(than: old) else {
      return old
    }
    return fileClass
  }

  /// What something that was there already lacks, as far as its class says; of a directory, for what is made in it.
  func omissions(ofClass item: SharedDescriptor) -> [Omission] {
    guard let fileClass, let given = try? FileClass(of: PathName(descriptor: item.descriptor)),
      status.type == .directory || !given.isExplicit
    else { return [] }
    return fileClass.protectsMore(than: given) ? [.protectionClass] : []
  }

  /// Whether the file still is as it was.
  func isCurrent(_ file: any SourceItem) throws(CopyError) -> Bool {
    do throws(Errno) {
      let now = try file.status()
      return now.size == status.size && now.modificationTime == status.modificationTime
        && now.change_seconds == status.change_seconds && now.change_nanoseconds == status.change_nanoseconds
    } catch {
      throw .source(error)
    }
  }

  /// Gives all of it to a copy, in an order in which no step undoes another. The class is left out: it comes first,
  /// before there are contents.
  ///
  /// - Parameter permissions: given in addition, for the time being.
  /// - Returns: what the copy does not have.
  func apply(to file: SharedDescriptor, adding permissions: UInt32 = 0) throws(CopyError) -> [Omission] {
    let path = PathName(descriptor: file.descriptor)
    var omissions = omissions
    do throws(Errno) {
      for (name, value) in attributes { try path.setAttribute(name, to: value) }
    } catch {
      // Of one file's attributes, there is only so much room, however empty the disk is.
      throw error == .noSpace || error == .argListTooLong ? .attributesTooLarge : .target(error)
    }
    do throws(Errno) {
      if try !applyOwner(to: file) { omissions.append(.owner) }
      if status.type != .symbolicLink { try applyPermissions(to: file, path, adding: permissions) }
      // A change of owner or contents removes file capabilities.
      for (name, value) in privileged {
        do throws(Errno) {
          try path.setAttribute(name, to: value)
        } catch {
          // However empty the disk is, there is only so much room for those of one file.
          let isOfAttribute: [Errno] = [
            .notPermitted, .notSupportedOnSocket, .noSpace, .argListTooLong, .invalidArgument, .outOfRange,
          ]
          guard isOfAttribute.contains(error) else { throw error }
          omissions.append(.attribute(name, error))
        }
      }
      try applyTimes(to: file)
    } catch {
      throw .target(error)
    }
    return omissions
  }

  private func applyPermissions(
    to file: SharedDescriptor, _ path: PathName, adding permissions: UInt32
  ) throws(Errno) {
    try removeInheritedAccessLists(of: file, path)
    let own = try ownPermissions(of: file)
    try file.descriptor.setModeThroughPath(own | permissions)
    for (name, value) in accessLists { try path.setAttribute(name, to: value) }
    // An access list sets the permissions too.
    if !accessLists.isEmpty, permissions != 0 { try file.descriptor.setModeThroughPath(own | permissions) }
  }

  /// Gives the times alone.
  func applyTimes(to file: SharedDescriptor) throws(Errno) {
    try file.descriptor.setTimes(
      access: .set(seconds: status.access_seconds, nanoseconds: Int64(status.access_nanoseconds)),
      modification: .set(seconds: status.modification_seconds, nanoseconds: Int64(status.modification_nanoseconds)))
  }

  /// What is made in a directory with a default access list has one, too.
  private func removeInheritedAccessLists(of file: SharedDescriptor, _ path: PathName) throws(Errno) {
    let wanted = Set(accessLists.map(\.name))
    for name in try Self.attributeNames(of: file).usable
    where name.description.hasPrefix(Self.accessListPrefix) && !wanted.contains(name) {
      try path.removeAttribute(name)
    }
  }

  /// What something that was there already does not have, as far as its status says.
  func omissions(of copy: Status) -> [Omission] { omissions + (hasOwner(copy) ? [] : [.owner]) }

  private func hasOwner(_ copy: Status) -> Bool { copy.user == status.user && copy.group == status.group }

  /// Gives owner and group as far as this user can. Returns whether the file has both.
  private func applyOwner(to file: SharedDescriptor) throws(Errno) -> Bool {
    let current = try file.descriptor.status()
    if hasOwner(current) { return true }
    if Process.identity.user == 0 {
      try file.descriptor.setOwner(user: status.user, group: status.group)
      return true
    }
    // Only a group of the user's own can be given.
    if current.group != status.group { try? file.descriptor.setOwner(user: nil, group: status.group) }
    return hasOwner(try file.descriptor.status())
  }

  /// The permissions, without set-ID bits where the owner could not be given.
  private func ownPermissions(of file: SharedDescriptor) throws(Errno) -> UInt32 {
    let isSame = hasOwner(try file.descriptor.status())
    return isSame || status.type == .directory ? status.permissions : status.permissions & ~0o6000
  }
}

extension Status {
  /// Seconds and nanoseconds of the last change of contents.
  var modificationTime: [Int64] { [modification_seconds, Int64(modification_nanoseconds)] }
}
