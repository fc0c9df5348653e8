import ProtectfsIO
import StoreFormat
import SystemPackage

// Paths of nodes, for messages.
extension BackingTree {
  /// A node's path in the mounted tree. Names that cannot be decrypted are shown as `?`.
  package func path(of node: Node) -> String {
    var names: [String] = []
    var current = node
    while let location = current.location {
      let name: PathName? = try? plainName(of: location.name, in: location.parent)
      names.append(name?.description ?? "?")
      current = location.parent
    }
    return "/" + names.reversed().joined(separator: "/")
  }

  /// The same path as ``path(of:)``, without access to the store. Names that would need it are shown as `?`.
  package func pathInMemory(of node: Node) -> String {
    "/" + namesInMemory(of: node).map { $0?.description ?? "?" }.joined(separator: "/")
  }

  /// The path of a node in a mount at `mountPoint`, without access to the store; `nil` if it would need that.
  package func pathInMemory(of node: Node, below mountPoint: String) -> PathName? {
    var bytes = Array(mountPoint.utf8)
    for name in namesInMemory(of: node) {
      guard let name else { return nil }
      bytes += [UInt8(ascii: "/")] + name.bytes
    }
    return PathName(bytes: bytes)
  }

  private func namesInMemory(of node: Node) -> [PathName?] {
    var names: [PathName?] = []
    var current = node
    while let location = current.location {
      names.append(nameInMemory(location))
      current = location.parent
    }
    return names.reversed()
  }

  private func nameInMemory(_ location: Node.Location) -> PathName? {
    guard let record = location.parent.state.withLock({ $0.directory }),
      case .direct(let encrypted) = NameEncoding.parse(location.name.bytes)
    else { return nil }
    return volume.entryName(encrypted, in: record.identifier)
  }

  /// Logs what is wrong with a backing file, with its backing path.
  package func damaged(_ node: Node, _ reason: String) {
    log.error(
      "damaged: \(reason)", metadata: ["backing": "\(backingPath(of: node))", "inode": "\(node.identity.inode)"])
  }

  /// What to answer to an operation on contents. Where they are damaged, that is `EIO`; it is logged once for each time
  /// that the file is opened.
  ///
  /// - Parameter range: what was to be read or written.
  package func answer(to error: Errno, of node: Node, in range: Range<UInt64>? = nil) -> Errno {
    guard let damage = error.damage else { return error }
    if node.file?.tellsDamage() != false {
      let place = range.map { "in bytes \($0.lowerBound) to \($0.upperBound - 1) " } ?? ""
      damaged(node, "\(damage) \(place)(\(error)); 'protectfs fsck --contents' finds all such pages")
    }
    return .ioError
  }

  /// A node's path in the backing directory.
  func backingPath(of node: Node) -> String {
    var names: [String] = []
    var current = node
    while let location = current.location {
      names.append(location.name.description)
      current = location.parent
    }
    return "/" + names.reversed().joined(separator: "/")
  }
}
