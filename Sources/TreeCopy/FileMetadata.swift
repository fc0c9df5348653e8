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
}

/// Owner, permissions, times, the user's extended attributes and ACLs of a file or directory, as they were at one moment.
struct FileMetadata: Sendable {
  let status: Status
  private let attributes: [(name: PathName, value: [UInt8])]
  private let accessLists: [(name: PathName, value: [UInt8])]

  /// Takes the metadata of something that was opened, with or without access.
  init(of item: any SourceItem) throws(Errno) {
    status = try item.status()
    typealias List = [(name: PathName, value: [UInt8])]
    var (attributes, accessLists): (List, List) = ([], [])
    let names = status.type == .symbolicLink ? [] : try Self.attributeNames(of: item)
    for name in names {
      let isUsers = name.description.hasPrefix("user.")
      guard isUsers || name.description.hasPrefix(Self.accessListPrefix) else { continue }
      do throws(Errno) {
        let value = try item.attribute(name)
        if isUsers { attributes.append((name, value)) } else { accessLists.append((name, value)) }
      } catch {
        // Gone since it was listed, or only listed for this user.
        guard error == .noData || !isUsers else { throw error }
      }
    }
    self.attributes = attributes
    self.accessLists = accessLists
  }

  private static let accessListPrefix = "system.posix_acl_"

  private static func attributeNames(of item: any SourceItem) throws(Errno) -> [PathName] {
    do throws(Errno) {
      return try item.attributeNames()
    } catch {
      guard error == .notSupported || error == .notSupportedOnSocket else { throw error }
      return []
    }
  }

  /// Whether a class was chosen for it.
  var fileClass: FileClass? {
    attributes.first { $0.name == FileClass.attribute }.map { FileClass(name: $0.value, isExplicit: true) }
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

  /// Gives all of it to a copy, in an order in which no step undoes another. The class is left out: it comes first, before
  /// there are contents.
  ///
  /// - Parameter permissions: given in addition, for the time being.
  func apply(to file: SharedDescriptor, adding permissions: UInt32 = 0) throws(CopyError) {
    let path = PathName(descriptor: file.descriptor)
    do throws(Errno) {
      for (name, value) in attributes where name != FileClass.attribute { try path.setAttribute(name, to: value) }
    } catch {
      // Of one file's attributes, there is only so much room, however empty the disk is.
      throw error == .noSpace || error == .argListTooLong ? .attributesTooLarge : .target(error)
    }
    do throws(Errno) {
      try applyOwner(to: file)
      if status.type != .symbolicLink { try applyPermissions(to: file, path, adding: permissions) }
      try applyTimes(to: file)
    } catch {
      throw .target(error)
    }
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
    for name in try Self.attributeNames(of: file)
    where name.description.hasPrefix(Self.accessListPrefix) && !wanted.contains(name) {
      try path.removeAttribute(name)
    }
  }

  private func applyOwner(to file: SharedDescriptor) throws(Errno) {
    let current = try file.descriptor.status()
    guard current.user != status.user || current.group != status.group else { return }
    if Process.identity.user == 0 {
      try file.descriptor.setOwner(user: status.user, group: status.group)
    } else if current.group != status.group {
      // Only a group of the user's own can be given.
      try? file.descriptor.setOwner(user: nil, group: status.group)
    }
  }

  /// The permissions, without set-ID bits where the owner could not be given.
  private func ownPermissions(of file: SharedDescriptor) throws(Errno) -> UInt32 {
    let current = try file.descriptor.status()
    let isSame = current.user == status.user && current.group == status.group
    return isSame || status.type == .directory ? status.permissions : status.permissions & ~0o6000
  }
}

extension Status {
  /// Seconds and nanoseconds of the last change of contents.
  var modificationTime: [Int64] { [modification_seconds, Int64(modification_nanoseconds)] }
}
