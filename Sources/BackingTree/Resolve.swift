import Cryptography
import FileProtection
import ProtectfsIO
import StoreFormat
import SystemPackage

/// A target for system calls on a node: its open file, a descriptor that the node keeps, or its backing file opened
/// with `O_PATH`.
package enum Reference: ~Copyable {
  case file(ProtectedFile)
  case kept(SharedDescriptor)
  case path(Descriptor)

  package borrowing func withDescriptor<Result: ~Copyable>(
    _ body: (borrowing Descriptor) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    switch self {
    case .file(let file): try file.withDescriptor(body)
    case .kept(let kept): try body(kept.descriptor)
    case .path(let descriptor): try body(descriptor)
    }
  }
}

// From nodes to backing files. A path is walked from the nearest open directory, and the file found must be the node's
// own.
extension BackingTree {
  /// The open backing directory of a node, and the contents of its record.
  package func directory(_ node: Node) throws(Errno) -> (handle: SharedDescriptor, record: Node.Directory) {
    let handle = try directoryHandle(node)
    if let record = recordSource.directory(node) { return (handle, record) }
    return (handle, recordSource.take(try readDirectoryRecord(of: node, handle), of: node))
  }

  /// The open backing directory of a node, opened from its nearest open ancestor.
  package func directoryHandle(_ node: Node) throws(Errno) -> SharedDescriptor {
    guard node.isDirectory else { throw .notDirectory }
    return try findingMoved { () throws(Errno) in try walk(to: node) }
  }

  private func walk(to node: Node) throws(Errno) -> SharedDescriptor {
    if let handle = node.state.withLock({ $0.kept }) { return handle }
    var missing: [Node] = [node]
    var base: SharedDescriptor?
    while base == nil {
      guard let parent = missing.last!.location?.parent else { throw .staleNFSFileHandle }
      base = parent.state.withLock { $0.kept }
      if base == nil { missing.append(parent) }
    }
    var handle = base!
    for child in missing.reversed() {
      guard let name = child.location?.name else { throw .staleNFSFileHandle }
      handle = try open(child, name, in: handle)
      directories.keep(handle, for: child)
    }
    return handle
  }

  private func open(_ node: Node, _ name: PathName, in parent: SharedDescriptor) throws(Errno) -> SharedDescriptor {
    do throws(Errno) {
      // The kernel has let the caller through, perhaps by an open file or a working directory.
      let descriptor = try ownerPermissions.ensuring(on: parent.descriptor) { () throws(Errno) in
        try parent.descriptor.open(name, [.path, .directory, .noFollow])
      }
      if Node.Identity(try descriptor.status()) == node.identity { return SharedDescriptor(descriptor) }
    } catch {
      guard [.noSuchFileOrDirectory, .notDirectory].contains(error) else { throw error }
    }
    throw .staleNFSFileHandle
  }

  /// Calls `body`, which looks for a node by its names. If `body` finds nothing, the node may be being renamed, so
  /// `body` runs once more with renames held off.
  private func findingMoved<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    do throws(Errno) {
      return try body()
    } catch .staleNFSFileHandle {
      return try renames.read(body)
    }
  }

  /// A descriptor of a node of any type.
  package func reference(to node: Node) throws(Errno) -> Reference {
    let (file, kept) = node.state.withLock { ($0.file, $0.kept) }
    if let file { return .file(file) }
    if let kept { return .kept(kept) }
    if node.isDirectory { return .kept(try directoryHandle(node)) }
    return .path(try open(node, [.path, .noFollow]))
  }

  /// Opens a node's backing file by one of its names.
  package func open(_ node: Node, _ flags: OpenFlags) throws(Errno) -> Descriptor {
    var status = Status()
    return try open(node, flags, status: &status)
  }

  /// Opens a node's backing file by one of its names, and returns the status that identified the file.
  package func open(_ node: Node, _ flags: OpenFlags, status: inout Status) throws(Errno) -> Descriptor {
    let (kept, file) = node.state.withLock { ($0.kept, $0.isKeptByFile ? $0.file : nil) }
    let reference: Reference? = if let kept { .kept(kept) } else if let file { .file(file) } else { nil }
    if let reference {
      return try reference.withDescriptor { (descriptor) throws(Errno) in
        status = try descriptor.status()
        return try Descriptor.open(PathName(descriptor: descriptor), flags.subtracting(.noFollow))
      }
    }
    return try findingMoved { () throws(Errno) in try openByName(node, flags, status: &status) }
  }

  private func openByName(_ node: Node, _ flags: OpenFlags, status: inout Status) throws(Errno) -> Descriptor {
    var failure = Errno.staleNFSFileHandle
    for location in locations(of: node) {
      do throws(Errno) {
        let descriptor = try walk(to: location.parent).descriptor.open(location.name, flags)
        status = try descriptor.status()
        if Node.Identity(status) == node.identity { return descriptor }
      } catch {
        if error != .noSuchFileOrDirectory { failure = error }
      }
    }
    throw failure
  }

  /// A node's status, without opening it.
  package func status(of node: Node) throws(Errno) -> Status {
    let (file, kept) = node.state.withLock { ($0.file, $0.kept) }
    if let file { return try file.status() }
    if let kept { return try kept.descriptor.status() }
    return try findingMoved { () throws(Errno) in try statusByName(of: node) }
  }

  private func statusByName(of node: Node) throws(Errno) -> Status {
    for location in locations(of: node) {
      do throws(Errno) {
        let status = try walk(to: location.parent).descriptor.status(of: location.name)
        if Node.Identity(status) == node.identity { return status }
      } catch {
        if error != .noSuchFileOrDirectory { throw error }
      }
    }
    throw .staleNFSFileHandle
  }

  private func locations(of node: Node) -> [Node.Location] {
    node.state.withLock { state in
      guard let location = state.location else { return [] }
      return state.aliases.isEmpty ? [location] : [location] + state.aliases.reversed()
    }
  }

}
