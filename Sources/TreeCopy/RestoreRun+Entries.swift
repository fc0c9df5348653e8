import ProtectfsIO
import SystemPackage

// What is done with one name.
extension RestoreRun {
  /// Restores what has a name in a directory of the source; of a directory, what it is itself.
  func restore(
    _ name: PathName, in place: RestoredDirectory, _ sides: Sides, _ descent: inout Descent
  ) throws(CopyError) {
    // What a killed run into the source has left there.
    guard !TemporaryName.isOne(name) else { return leftOut([.unfinishedCopy], place.path + [name]) }
    let item = try fromSource { () throws(Errno) in try sides.source.item(name) }
    let metadata = try fromSource { () throws(Errno) in try FileMetadata(of: item) }
    try requireSourceDevice(metadata.status)
    let there = try existing(name, in: sides.target)
    switch metadata.status.type {
    case .directory: try directory(name, in: place, sides, item, metadata, there, &descent)
    case .regular: try file(name, in: place, sides, metadata, there)
    default: try other(name, in: place, sides.target, item, metadata, there)
    }
  }

  private func directory(
    _ name: PathName, in place: RestoredDirectory, _ sides: Sides, _ source: any SourceItem, _ metadata: FileMetadata,
    _ there: Status?, _ descent: inout Descent
  ) throws(CopyError) {
    var omissions = metadata.omissions
    if let there {
      guard there.type == .directory else { return observer.differs(Self.text(place.path + [name])) }
    } else {
      if !options.isDryRun, let parent = sides.target { omissions = try makeDirectory(name, in: parent, metadata) }
      observer.did(.directory, Self.text(place.path + [name]))
    }
    var target: SharedDescriptor?
    if there != nil || !options.isDryRun, let parent = sides.target {
      target = try onTarget { () throws(Errno) in
        SharedDescriptor(try parent.descriptor.open(name, [.path, .directory, .noFollow]))
      }
    }
    if there != nil, let target { omissions += metadata.omissions(ofClass: target) }
    leftOut(omissions, place.path + [name])
    let below = Sides(source: source, target: target)
    place.label.enter()
    try enter(
      RestoredDirectory(name, below, RestoredMetadata(metadata), in: place, open: below.opener(name, metadata.status)),
      below, &descent)
  }

  // MARK: Files

  /// What to do about a file that is there already.
  private enum Verdict {
    case isThere, replace, leave
  }

  private func file(
    _ name: PathName, in place: RestoredDirectory, _ sides: Sides, _ metadata: FileMetadata, _ there: Status?
  ) throws(CopyError) {
    let path = place.path + [name]
    if let there, let target = sides.target {
      switch try verdict(name, of: sides.source, in: target, metadata, there) {
      case .isThere:
        note(metadata.status, restoredAs: there.inode, path)
        let found = try onTarget { () throws(Errno) in
          SharedDescriptor(try target.descriptor.open(name, [.path, .noFollow]))
        }
        leftOut(metadata.omissions(of: there) + metadata.omissions(ofClass: found), path)
        return observer.found()
      case .leave: return observer.differs(Self.text(path))
      case .replace: break
      }
    }
    if let first = firstName(of: metadata.status) {
      if !options.isDryRun, let target = sides.target { try link(name, in: target, to: first, replacing: there) }
      return observer.did(.link, Self.text(path))
    }
    let deed = there == nil ? Deed.copied : .replaced
    guard let threads, let target = sides.target else {
      note(metadata.status, restoredAs: 0, path)
      leftOut(metadata.omissions, path)
      return observer.did(deed, Self.text(path))
    }
    place.label.enter()
    threads.add { [self] copier in
      attempt(path) { () throws(CopyError) in
        let copied = try copy(name, from: sides.source, to: target, there, copier)
        note(copied.status, restoredAs: copied.inode, path)
        leftOut(copied.omissions, path)
        observer.did(deed, Self.text(path))
      }
      leave(place)
    }
    // Its next name is a link to what has come of this one.
    if metadata.status.links > 1 { threads.drain() }
  }

  private func verdict(
    _ name: PathName, of source: any SourceItem, in target: SharedDescriptor, _ metadata: FileMetadata, _ there: Status
  ) throws(CopyError) -> Verdict {
    guard there.type == .regular else { return there.type == .directory || !options.overwrites ? .leave : .replace }
    switch OrphanSearch.openError(name, in: target) {
    case nil: break
    case .keyRevoked: return .replace
    case .some(let error): throw .target(error)
    }
    let (wanted, now) = (metadata.status, there)
    guard wanted.size == now.size, wanted.modificationTime == now.modificationTime else {
      return options.overwrites ? .replace : .leave
    }
    guard options.overwrites else { return .isThere }
    // It may be damaged without an error, or have been written with its former time.
    let wantedFile = try fromSource { () throws(Errno) in try source.file(name) }
    let file = try onTarget { () throws(Errno) in
      SharedDescriptor(try target.descriptor.openQuietly(name, [.nonBlocking]))
    }
    let comparison = VerifiedCopy { [progress] (_) throws(CopyError) in try progress.require() }
    return try comparison.isCopy(file, of: wantedFile, wanted.size) ? .isThere : .replace
  }

  /// What was copied, which may be another file than the one that had the name before, and where to.
  private typealias Copied = (status: Status, inode: UInt64, omissions: [Omission])

  /// Copies a file, once more if somebody wrote to it meanwhile.
  private func copy(
    _ name: PathName, from source: any SourceItem, to target: SharedDescriptor, _ there: Status?, _ copier: VerifiedCopy
  ) throws(CopyError) -> Copied {
    do throws(CopyError) {
      return try copyOnce(name, from: source, to: target, there, copier)
    } catch {
      guard case .changedMeanwhile = error else { throw error }
      return try copyOnce(name, from: source, to: target, there, copier)
    }
  }

  private func copyOnce(
    _ name: PathName, from source: any SourceItem, to target: SharedDescriptor, _ there: Status?, _ copier: VerifiedCopy
  ) throws(CopyError) -> Copied {
    let file = try fromSource { () throws(Errno) in try source.file(name) }
    let metadata = try fromSource { () throws(Errno) in try FileMetadata(of: file) }
    guard metadata.status.type == .regular else { throw .changedMeanwhile }
    // While it is open, no other file gets the number of that which is replaced.
    let old = try replaced(name, in: target, there)
    defer { withExtendedLifetime(old) {} }
    let fileClass = try onTarget { () throws(Errno) in
      guard let old else { return metadata.fileClass(in: target) }
      return try metadata.fileClass(replacing: FileClass(of: PathName(descriptor: old.descriptor)))
    }
    let copy = try copier.copy(file, metadata, as: name, in: target, fileClass, replacing: there?.inode)
    return (metadata.status, copy.inode, copy.omissions)
  }

  /// The regular file that is to be replaced.
  private func replaced(
    _ name: PathName, in target: SharedDescriptor, _ there: Status?
  ) throws(CopyError) -> SharedDescriptor? {
    guard let there, there.type == .regular else { return nil }
    let old = SharedDescriptor(
      try onTarget { () throws(Errno) in try target.descriptor.open(name, [.path, .noFollow]) })
    guard try onTarget({ () throws(Errno) in try old.descriptor.status() }).isSame(as: there) else {
      throw .replacedMeanwhile
    }
    return old
  }

  private func link(
    _ name: PathName, in target: SharedDescriptor, to first: FirstName, replacing there: Status?
  ) throws(CopyError) {
    let file = try onTarget { () throws(Errno) in try restored(first.path) }
    let inode = try onTarget { () throws(Errno) in try file.descriptor.status().inode }
    guard inode == first.inode else { throw .replacedMeanwhile }
    let temporary = TemporaryEntry(for: name, in: target)
    try temporary.make { (directory, name) throws(Errno) in try file.descriptor.link(to: name, in: directory) }
    try temporary.takeName(replacing: there?.inode)
  }

  // MARK: What is neither file nor directory

  /// Restores a symbolic link, a fifo, a socket or a device.
  private func other(
    _ name: PathName, in place: RestoredDirectory, _ target: SharedDescriptor?, _ item: any SourceItem,
    _ metadata: FileMetadata, _ there: Status?
  ) throws(CopyError) {
    let path = place.path + [name]
    let status = metadata.status
    let link = status.type == .symbolicLink ? try fromSource { () throws(Errno) in try item.linkTarget() } : nil
    if let there {
      if try isSame(name, in: target, link, status, there) {
        leftOut(metadata.omissions(of: there), path)
        return observer.found()
      }
      guard options.overwrites, there.type != .directory else { return observer.differs(Self.text(path)) }
    }
    if let first = firstName(of: status) {
      if !options.isDryRun, let target { try self.link(name, in: target, to: first, replacing: there) }
      return observer.did(.link, Self.text(path))
    }
    if !options.isDryRun, let target {
      let temporary = TemporaryEntry(for: name, in: target)
      try temporary.make { (directory, name) throws(Errno) in
        if let link {
          try directory.makeSymbolicLink(name, target: link)
        } else {
          try directory.makeNode(name, mode: status.mode & 0o170000 | 0o600, device: status.raw_device)
        }
      }
      let made = try onTarget { () throws(Errno) in
        SharedDescriptor(try target.descriptor.open(temporary.name, [.path, .noFollow]))
      }
      leftOut(try metadata.apply(to: made), path)
      let inode = try onTarget { () throws(Errno) in try made.descriptor.status().inode }
      try temporary.takeName(replacing: there?.inode)
      note(status, restoredAs: inode, path)
    }
    observer.did(.other, Self.text(path))
  }

  private func isSame(
    _ name: PathName, in target: SharedDescriptor?, _ link: PathName?, _ status: Status, _ there: Status
  ) throws(CopyError) -> Bool {
    guard there.type == status.type, let target else { return false }
    guard let link else { return there.raw_device == status.raw_device }
    return try onTarget { () throws(Errno) in
      PathName(bytes: try target.descriptor.target(ofSymbolicLink: name)) == link
    }
  }
}
