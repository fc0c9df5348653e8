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
    var names: [String] = []
    var current = node
    while let location = current.location {
      names.append(nameInMemory(location)?.description ?? "?")
      current = location.parent
    }
    return "/" + names.reversed().joined(separator: "/")
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
