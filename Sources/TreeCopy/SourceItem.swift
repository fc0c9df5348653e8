import ProtectfsIO
import SystemPackage

/// A file, a directory or whatever else of a tree that is copied. What it is can be asked without access to its
/// contents.
package protocol SourceItem: AnyObject, Sendable {
  /// Whether it takes a descriptor, so that not all directories of a deep tree can be kept.
  var holdsDescriptor: Bool { get }

  func status() throws(Errno) -> Status
  /// The names of its extended attributes.
  func attributeNames() throws(Errno) -> SourceNames
  func attribute(_ name: PathName) throws(Errno) -> [UInt8]

  /// The names in this directory.
  func names() throws(Errno) -> SourceNames
  /// What has a name in this directory; a symbolic link is not followed.
  func item(_ name: PathName) throws(Errno) -> any SourceItem
  /// A file of this directory, opened for reading.
  func file(_ name: PathName) throws(Errno) -> any SourceItem
  /// Where this symbolic link leads.
  func linkTarget() throws(Errno) -> PathName

  /// Reads at a position of this open file; less than there is room for at its end only.
  func read(into buffer: UnsafeMutableRawBufferPointer, at position: UInt64) throws(Errno) -> Int
  /// The start of the next data, or of the next hole, of this open file (lseek(2)).
  func seek(to position: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64
}

/// Names of a source.
package struct SourceNames: Sendable {
  package var usable: [PathName] = []
  /// Those of a store that cannot be decrypted, or that are not the store's, as they are in the backing directory.
  package var undecodable: [PathName] = []

  package init(_ usable: [PathName] = []) { self.usable = usable }
}

extension SourceItem {
  /// The next run of data at or behind a position.
  func data(from position: UInt64, before end: UInt64) throws(Errno) -> Range<UInt64>? {
    try nextData(from: position, before: end, seeking: seek)
  }
}

/// What is in a directory of plaintext, a mount perhaps.
extension SharedDescriptor: SourceItem {
  package var holdsDescriptor: Bool { true }

  package func status() throws(Errno) -> Status { try descriptor.status() }

  package func attributeNames() throws(Errno) -> SourceNames {
    SourceNames(try PathName(descriptor: descriptor).attributeNames())
  }

  package func attribute(_ name: PathName) throws(Errno) -> [UInt8] {
    try PathName(descriptor: descriptor).attribute(name)
  }

  package func names() throws(Errno) -> SourceNames {
    SourceNames(try descriptor.openQuietly(".", [.directory]).remainingNames())
  }

  package func item(_ name: PathName) throws(Errno) -> any SourceItem {
    SharedDescriptor(try descriptor.open(name, [.path, .noFollow]))
  }

  package func file(_ name: PathName) throws(Errno) -> any SourceItem {
    SharedDescriptor(try descriptor.openQuietly(name, [.nonBlocking]))
  }

  package func linkTarget() throws(Errno) -> PathName { PathName(bytes: try descriptor.target(ofSymbolicLink: "")) }

  package func read(into buffer: UnsafeMutableRawBufferPointer, at position: UInt64) throws(Errno) -> Int {
    try unsafe descriptor.read(into: buffer, at: position)
  }

  package func seek(to position: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    try descriptor.seek(to: position, origin)
  }
}

extension Descriptor {
  /// Opens a name for reading, so that no access time moves where that can be had; no symbolic link is followed.
  func openQuietly(_ name: PathName, _ flags: OpenFlags = []) throws(Errno) -> Descriptor {
    let flags = flags.union([.readOnly, .noFollow])
    do throws(Errno) {
      return try open(name, flags.union(.keepAccessTime))
    } catch .notPermitted {
      // Only the owner and root may ask for that.
      return try open(name, flags)
    }
  }
}
