import BackingTree
import FUSE
import ProtectfsIO
import ProtectfsPolicy
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
  func storedRecord(of named: BackingTree.NamedFile?, at location: Node.Location) throws(Errno) -> StoredRecord {
    guard let named, named.status.type == .regular else { return .noFile }
    let node = tree.nodes.find(named.status) ?? Node(named.status, location: location)
    do throws(Errno) {
      let bytes = try tree.recordBytes(of: named.file.descriptor)
      return .stored(try tree.verifiedFileRecord(bytes, of: node, named.file.descriptor), node)
    } catch .noData {
      guard named.status.size > 0 else { return .awaited(node) }
      tree.damaged(node, "the file has contents but no record, and so no class")
      throw .ioError
    }
  }

  /// What is to be known of a file that is about to leave a name; `nil` if its class is not explicit, or not known.
  func former(_ named: BackingTree.NamedFile?, at location: Node.Location) -> VacatedNames.Former? {
    guard tree.options.keepsReplacedClass, let named, named.status.type == .regular, tree.saysExplicit(named),
      case .stored(let record, _)? = try? storedRecord(of: named, at: location), record.isExplicit
    else { return nil }
    return .init(fileClass: record.fileClass, user: named.status.user)
  }

  /// The class that a file takes over with a name, from the file of an explicit class that has left it a moment ago: it
  /// is that one's successor. `nil` for its own class where that protects more, and for class B where the other is
  /// locked: new files of class B can be created at all times.
  ///
  /// - Parameter user: who owns the successor.
  func classLeft(
    at location: Node.Location, by user: UInt32, insteadOf own: ProtectionClass, _ caller: Caller
  ) -> ProtectionClass? {
    guard let former = tree.vacated.former(at: location), caller.isOwner(user, former.user),
      !ProtectionPolicy.protects(own, moreThan: former.fileClass),
      !own.keepsOpenFiles || tree.controller.allows(.create, on: former.fileClass)
    else { return nil }
    return former.fileClass
  }
}
