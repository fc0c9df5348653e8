import ProtectfsIO
import SystemPackage

/// A directory on the path from the root to the current entry.
///
/// It reads its names in batches of a few hundred, and can close its descriptor while the check is deep below: a path
/// may be longer than the descriptor limit.
final class Visit {
  let place: Place
  /// The directory ID; `nil` if the record is unusable, so that names in the directory cannot be decrypted.
  let identifier: [UInt8]?
  /// Whether this user may search the directory. Otherwise each entry is examined with temporary search permission.
  let isSearchable: Bool
  /// Whether something was renamed or removed in it.
  var isChanged = false

  private let identity: FileIdentity
  private var directory: SharedDescriptor?
  private var offset: UInt64 = 0
  private var pending: ArraySlice<PathName> = []

  init(
    _ descriptor: consuming Descriptor, at place: Place, identifier: [UInt8]?, isSearchable: Bool = true
  ) throws(Errno) {
    identity = try descriptor.status().identity
    self.isSearchable = isSearchable
    self.place = place
    self.identifier = identifier
    directory = SharedDescriptor(descriptor)
  }

  /// The directory; only while it is not suspended.
  var opened: SharedDescriptor {
    get throws(Errno) {
      guard let directory else { throw .badFileDescriptor }
      return directory
    }
  }

  /// Calls `body` with the directory, which gets temporary owner `permissions` if it may not be searched.
  func searching<Result>(
    _ permissions: UInt32, _ body: (SharedDescriptor) throws(Errno) -> Result
  ) throws(Errno) -> Result {
    let directory = try opened
    guard !isSearchable else { return try body(directory) }
    var failure: Errno?
    let result = try directory.descriptor.addingOwnerPermissions(
      permissions, notRestored: { (error, _) in failure = error }
    ) {
      () throws(Errno) in try body(directory)
    }
    if let failure { throw failure }
    return result
  }

  /// The next name; `nil` after the last.
  func nextName() throws(Errno) -> PathName? {
    if pending.isEmpty { pending = try opened.descriptor.nextNames()[...] }
    return pending.popFirst()
  }

  /// Closes the descriptor.
  func suspend() throws(Errno) {
    offset = try opened.descriptor.seek(to: 0, .current)
    directory = nil
  }

  /// Opens the directory again, as the parent of a directory in it.
  ///
  /// - Throws: `ESTALE` if that has another parent now.
  func resume(from child: Visit) throws(Errno) {
    guard directory == nil else { return }
    let parent = try child.searching(0o100) { (directory) throws(Errno) in
      SharedDescriptor(try directory.descriptor.open("..", [.path, .directory]))
    }.descriptor.readable { (path) throws(Errno) in try Descriptor.open(path, [.readOnly, .directory]) }
    guard try parent.status().identity == identity else { throw .staleNFSFileHandle }
    _ = try parent.seek(to: offset, .start)
    directory = SharedDescriptor(parent)
  }
}
