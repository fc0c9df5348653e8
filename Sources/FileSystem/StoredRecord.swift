import BackingTree
import ProtectfsIO
import StoreFormat
import SystemPackage

// The record of a file by its name, whether or not the kernel knows the file.
extension ProtectedFileSystem {
  /// What is known about the class of a name.
  enum StoredRecord {
    case stored(FileRecord, Node)
    /// An empty file that has no record yet.
    case awaited(Node)
    /// There is no such name, or it is not a regular file.
    case noFile
  }

  /// - Throws: `EIO` if the record is damaged, or missing from a file that has contents.
  func storedRecord(of name: PathName, in directory: Node) throws(Errno) -> StoredRecord {
    let handle = try tree.directoryHandle(directory)
    var bytes: [UInt8]?
    var denial: Errno?
    do throws(Errno) {
      bytes = try tree.recordBytes(of: name, in: handle)
    } catch {
      switch error {
      case .noSuchFileOrDirectory: return .noFile
      case .noData: break
      // Files of other types have no record, and reading one may fail with these errors.
      case .notPermitted, .permissionDenied, .notSupportedOnSocket: denial = error
      default: throw error
      }
    }
    let status = try handle.descriptor.status(of: name)
    guard status.type == .regular else { return .noFile }
    if let denial { throw denial }
    let node = tree.nodes.find(status) ?? Node(status, location: .init(parent: directory, name: name))
    if let bytes {
      let record = try tree.verifiedFileRecord(bytes, of: node) { () throws(Errno) in
        try handle.descriptor.status(of: name).size
      } again: { () throws(Errno) in
        try tree.recordBytes(of: name, in: handle)
      }
      return .stored(record, node)
    }
    guard status.size > 0 else { return .awaited(node) }
    tree.damaged(node, "the file has contents but no record, and so no class")
    throw .ioError
  }
}
