import ProtectfsIO
import StoreFormat
import SystemPackage

/// An object that examines all regular files of a store.
protocol TreeVisitor: AnyObject {
  /// Examines a regular file, found by a name in a directory. An error ends the walk.
  func visit(_ name: PathName, in directory: SharedDescriptor, _ file: Node) throws(Errno)
  /// Called if the walk itself fails at a file or directory. It throws to end the walk; otherwise that file or
  /// directory is left out.
  func failed(_ error: Errno, at node: Node) throws(Errno)
  /// Called before each name, and after each directory. It throws to end the walk.
  func goOn(isDirectoryDone: Bool) throws(Errno)
}

// The walk of a store that is in use. Names that are renamed or linked meanwhile are recorded in `moves` and visited
// after the tree: they may have moved from a place not yet visited to one that was.
extension BackingTree {
  /// Visits the files of the tree, and, if `includingLostAndFound`, those that a check moved out of it.
  ///
  /// The caller calls `moves.begin()` before, and ``walkMoved(_:)`` and `moves.end()` afterwards.
  func walk(_ visitor: some TreeVisitor, includingLostAndFound: Bool) throws(Errno) {
    try walk(from: nodes.root, visitor)
    guard includingLostAndFound, let lostAndFound = try lostAndFound() else { return }
    try walk(from: lostAndFound, visitor)
  }

  /// Visits the names that were renamed or linked meanwhile, until there are none. Renames and links are held off while
  /// a name is taken, so that none is complete but not recorded.
  func walkMoved(_ visitor: some TreeVisitor) throws(Errno) {
    var replacements: Set<Node.Identity> = []
    while let moved = renames.write({ moves.next() }) {
      guard let place = try place(of: moved.parent, visitor) else { continue }
      if let replacement = place.replacement, replacements.insert(replacement.identity).inserted {
        try walk(from: replacement, visitor)
      }
      // One that was moved behind the mount's back is found where it is.
      let open = place.directory ?? (try? directoryHandle(moved.parent)).map { (moved.parent, $0) }
      guard let (parent, handle) = open else { continue }
      let below = try look(at: .init(parent: parent, name: moved.name), in: handle, visitor)
      if let below { try walk(from: below, visitor) }
    }
  }

  /// A file system whose inode numbers do not stay would have no end of them.
  private static let mostReplacements = 100_000

  private func walk(from directory: Node, _ visitor: some TreeVisitor) throws(Errno) {
    var waiting = [directory]
    var replacements: Set<Node.Identity> = []
    while let directory = waiting.popLast() {
      guard let place = try place(of: directory, visitor) else { continue }
      if let replacement = place.replacement {
        // It is walked whole, since the names in it may be others.
        if replacements.count > Self.mostReplacements {
          try visitor.failed(.staleNFSFileHandle, at: replacement)
        } else if replacements.insert(replacement.identity).inserted {
          waiting.append(replacement)
        }
        continue
      }
      guard let (_, handle) = place.directory else { continue }
      let stream: SharedDescriptor
      do throws(Errno) {
        stream = SharedDescriptor(try openForListing(handle))
      } catch {
        // Removed meanwhile, as below.
        if error != .noSuchFileOrDirectory { try visitor.failed(error, at: directory) }
        continue
      }
      var names: [PathName] = []
      repeat {
        do throws(Errno) {
          names = try stream.descriptor.nextNames()
        } catch .noSuchFileOrDirectory {
          // Removed meanwhile, and so empty (getdents(2)).
          break
        } catch {
          try visitor.failed(error, at: directory)
          break
        }
        for name in names where !(directory.isRoot && name == Self.storeDirectory) {
          let below = try look(at: .init(parent: directory, name: name), in: handle, visitor)
          if let below { waiting.append(below) }
        }
      } while !names.isEmpty
      try visitor.goOn(isDirectoryDone: true)
    }
  }

  /// Examines a name. Returns its node if it is a directory.
  private func look(
    at location: Node.Location, in handle: SharedDescriptor, _ visitor: some TreeVisitor
  ) throws(Errno) -> Node? {
    try visitor.goOn(isDirectoryDone: false)
    var found: Status?
    do throws(Errno) {
      found = try ownerPermissions.ensuring(on: handle.descriptor) { () throws(Errno) in
        try handle.descriptor.status(of: location.name)
      }
    } catch {
      // Removed or renamed since it was listed. ESTALE is no such answer here: the directory is open.
      if error != .noSuchFileOrDirectory { try visitor.failed(error, at: location.parent) }
    }
    guard let found, found.type == .directory || found.type == .regular else { return nil }
    let node = nodes.find(found) ?? Node(found, location: location)
    if found.is_mount_root != 0 {
      // Under a name that is none of the store's, it hides nothing of the store.
      if NameEncoding.parse(location.name.bytes) != .undecodable { try visitor.failed(.improperLink, at: node) }
      return nil
    }
    note(location, of: node, in: handle)
    guard node.isRegular else { return node }
    try visitor.visit(location.name, in: handle, node)
    return nil
  }

  /// Stores the name under which the walk has found a known node. The names that the node knows may be gone: one of a
  /// file with hard links, or those of a directory that was moved behind the mount's back.
  private func note(_ location: Node.Location, of node: Node, in handle: SharedDescriptor) {
    guard let known = node.location,
      known.parent.identity != location.parent.identity || known.name != location.name
    else { return }
    // A rename that has come since stores the new name itself.
    renames.read {
      let status = try? ownerPermissions.ensuring(on: handle.descriptor) { () throws(Errno) in
        try handle.descriptor.status(of: location.name)
      }
      guard let status, Node.Identity(status) == node.identity else { return }
      // The kernel may know the directory by now, and a rename of it changes the node that the kernel knows.
      let parent = (try? handle.descriptor.status()).flatMap(nodes.find) ?? location.parent
      node.moved(
        to: .init(parent: parent, name: location.name), hasOtherNames: status.links > 1 && !node.isDirectory)
    }
  }

  /// The directory of files that a check moved out of the tree. No path of the mount leads there.
  private func lostAndFound() throws(Errno) -> Node? {
    var parent = nodes.root
    var handle = root
    for name in [Self.storeDirectory, "lost+found"] {
      do throws(Errno) {
        handle = SharedDescriptor(try handle.descriptor.open(name, [.path, .directory, .noFollow]))
      } catch {
        if error == .noSuchFileOrDirectory { return nil } else { throw error }
      }
      parent = Node(try handle.descriptor.status(), location: .init(parent: parent, name: name))
    }
    return parent
  }

  /// Where the names of a directory lead.
  private struct Place {
    /// The directory that has these names; `nil` if there is none.
    var directory: (node: Node, handle: SharedDescriptor)?
    /// The topmost directory on the way that is not the known one: an overlay has copied that, or a backup was put in
    /// its place, behind the mount's back.
    var replacement: Node?
  }

  /// Opens a directory by its names from the root on: descriptors that are open may be those of replaced directories.
  /// `nil` if that fails, which is the visitor's to judge.
  private func place(of directory: Node, _ visitor: some TreeVisitor) throws(Errno) -> Place? {
    do throws(Errno) {
      return try renames.read { () throws(Errno) in try place(of: directory) }
    } catch {
      try visitor.failed(error, at: directory)
      return nil
    }
  }

  private func place(of directory: Node) throws(Errno) -> Place {
    var way: [(node: Node, name: PathName)] = []
    var current = directory
    while let location = current.location {
      way.append((current, location.name))
      current = location.parent
    }
    var replacement: Node?
    var found: (node: Node, handle: SharedDescriptor) = (nodes.root, root)
    for (node, name) in way.reversed() {
      do throws(Errno) {
        let handle = try ownerPermissions.ensuring(on: found.handle.descriptor) { () throws(Errno) in
          SharedDescriptor(try found.handle.descriptor.open(name, [.path, .directory, .noFollow]))
        }
        let status = try handle.descriptor.status()
        if replacement == nil, Node.Identity(status) == node.identity {
          found = (node, handle)
        } else {
          found = (Node(status, location: .init(parent: found.node, name: name)), handle)
          replacement = replacement ?? found.node
        }
      } catch {
        // Removed or renamed. If the mount has renamed it, that was recorded.
        guard [.noSuchFileOrDirectory, .notDirectory].contains(error) else { throw error }
        return Place(directory: nil, replacement: replacement)
      }
    }
    return Place(directory: found, replacement: replacement)
  }
}
