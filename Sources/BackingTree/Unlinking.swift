import ProtectfsIO
import StoreFormat
import SystemPackage

// What stays of a file or directory that has lost its last name, and what must not.
extension BackingTree {
  /// Takes a name away with `body`. If that was the last one of a file or directory, it is kept with its node, and what a
  /// link has in a target file goes.
  package func keepingNameless(
    _ name: PathName, in handle: SharedDescriptor, _ body: () throws(Errno) -> Void
  ) throws(Errno) {
    let last: (file: SharedDescriptor, status: Status)
    do throws(Errno) {
      let file = SharedDescriptor(try handle.descriptor.open(name, [.path, .noFollow]))
      last = (file, try file.descriptor.status())
    } catch {
      // There is no such name, or no descriptor left: whoever holds the file by its node alone finds it stale.
      return try body()
    }
    guard last.status.links == 1 || last.status.type == .directory else { return try body() }
    let node = nodes.find(last.status)
    let target = try longTarget(of: last.file.descriptor, last.status)
    node?.state.withLock { $0.nameless = last.file }
    do throws(Errno) {
      try body()
    } catch {
      node?.state.withLock { $0.nameless = nil }
      throw error
    }
    // It may have been given another name meanwhile.
    if let target, try last.file.descriptor.status().links == 0 { removeTargetFile(of: target) }
  }

  /// Sidecars whose names are gone are leftovers of a crash: no caller can see them, and they must not keep a directory
  /// from being removed.
  package func removeLeftovers(in name: PathName, of handle: SharedDescriptor) throws(Errno) {
    let directory: Descriptor
    do throws(Errno) {
      let path = try handle.descriptor.open(name, [.path, .directory, .noFollow])
      directory = try openForListing(SharedDescriptor(path))
    } catch {
      // What cannot be opened is left to rmdir(2), which says why.
      return
    }
    let stream = DirectoryStream(directory)
    guard let names = try stream.onlySidecars() else { return }
    for name in names { try stream.descriptor.unlink(name) }
  }
}
