import ProtectfsIO
import StoreFormat
import SystemPackage

// Unlinked files and directories that the kernel still knows, and leftovers.
extension BackingTree {
  /// What has a name, opened with `O_PATH`.
  package struct NamedFile {
    package let file: SharedDescriptor
    package let status: Status
  }

  /// What has a name in the backing directory; `nil` if nothing has.
  package func named(_ name: PathName, in handle: SharedDescriptor) throws(Errno) -> NamedFile? {
    do throws(Errno) {
      let file = SharedDescriptor(try handle.descriptor.open(name, [.path, .noFollow]))
      return NamedFile(file: file, status: try file.descriptor.status())
    } catch .noSuchFileOrDirectory {
      return nil
    }
  }

  /// Removes a name with `body`. If that was the last name of a file or directory, its node keeps the file open. If it
  /// was the last that is known of a file with others, which the kernel may know, the directory cache does. If it was
  /// that of a link, the link's long symlink file is removed.
  ///
  /// - Parameter last: what has the name; `nil` also if no descriptor is left: the node of the file becomes stale.
  package func keepingUnlinked(
    _ last: NamedFile?, at location: Node.Location, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    guard let last else { return try body() }
    let node = nodes.find(last.status)
    guard last.status.links == 1 || last.status.type == .directory else {
      if let node, !node.forget(location), node.location == location { directories.keep(last.file, for: node) }
      do throws(Errno) {
        return try body()
      } catch {
        node?.moved(to: location, hasOtherNames: true)
        throw error
      }
    }
    let target = try longTarget(of: last.file.descriptor, last.status)
    node?.keep(unlinked: last.file)
    if let node { forgetClosed(node) }
    do throws(Errno) {
      try body()
    } catch {
      node?.keep(unlinked: nil)
      throw error
    }
    // The link may have been given another name meanwhile.
    if let target, try last.file.descriptor.status().links == 0 { removeLongSymlinkFile(of: target) }
  }

  /// Removes or replaces a directory with `body`. If it is not empty, leftovers of crashes are removed from it first:
  /// no caller can see them, and they must not keep the directory.
  ///
  /// - Throws: why it cannot be looked at, if so.
  package func ignoringLeftovers(
    in name: PathName, of handle: SharedDescriptor, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    do throws(Errno) {
      return try body()
    } catch {
      // POSIX allows either.
      guard error == .directoryNotEmpty || error == .fileExists else { throw error }
    }
    try removeLeftovers(in: name, of: handle)
    try body()
  }

  /// Removes sidecars without a name from a directory that has nothing else.
  private func removeLeftovers(in name: PathName, of handle: SharedDescriptor) throws(Errno) {
    let directory: Descriptor
    do throws(Errno) {
      let path = try handle.descriptor.open(name, [.path, .directory, .noFollow])
      directory = try openForListing(SharedDescriptor(path))
    } catch {
      switch error {
      // Of what is another user's, or was replaced meanwhile, the next try reports what is wrong.
      case .permissionDenied, .noSuchFileOrDirectory, .notDirectory, .tooManySymbolicLinkLevels: return
      default: throw error
      }
    }
    var sidecars: [PathName] = []
    while true {
      let names = try directory.nextNames()
      if names.isEmpty { break }
      guard names.allSatisfy({ NameEncoding.parse($0.bytes) == .sidecar }) else { return }
      sidecars += names
    }
    for name in sidecars { try directory.unlink(name) }
  }
}
