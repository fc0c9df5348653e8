import ProtectfsIO
import SystemPackage

@testable import TreeCopy

/// An item of a source that is in memory, with whatever is wrong with it.
final class FakeItem: SourceItem {
  let own: Status
  let contents: [UInt8]
  let items: [PathName: FakeItem]
  let undecodable: [PathName]
  let attributes: [PathName: Result<[UInt8], Errno>]
  let damagedAttributes: [PathName]
  let failure: Errno?
  /// What is found when the name is opened, if that is another file than was found before.
  let successor: FakeItem?

  /// A file.
  init(
    _ contents: String, size: UInt64? = nil, inode: UInt64, device: UInt64 = 0, links: UInt32 = 1,
    attributes: [PathName: Result<[UInt8], Errno>] = [:], damagedAttributes: [PathName] = [], failure: Errno? = nil,
    successor: FakeItem? = nil
  ) {
    self.contents = Array(contents.utf8)
    self.attributes = attributes
    self.damagedAttributes = damagedAttributes
    self.failure = failure
    self.successor = successor
    (items, undecodable) = ([:], [])
    own = Self.status(inode, device, 0o100644, size: size ?? UInt64(contents.utf8.count), links)
  }

  /// A directory.
  init(_ items: [PathName: FakeItem], undecodable: [PathName] = [], inode: UInt64 = 1, failure: Errno? = nil) {
    self.items = items
    self.undecodable = undecodable
    self.failure = failure
    (contents, attributes, damagedAttributes, successor) = ([], [:], [], nil)
    own = Self.status(inode, 0, 0o040755, size: 4096, 2)
  }

  private static func status(
    _ inode: UInt64, _ device: UInt64, _ mode: UInt32, size: UInt64, _ links: UInt32
  ) -> Status {
    var status = Status()
    (status.inode, status.device, status.mode, status.size, status.links) = (inode, device, mode, size, links)
    (status.user, status.group) = Process.identity
    status.modification_seconds = 1_000_000_000
    return status
  }

  var holdsDescriptor: Bool { false }

  func status() throws(Errno) -> Status { own }

  func attributeNames() throws(Errno) -> SourceNames {
    var names = SourceNames(Array(attributes.keys))
    names.undecodable = damagedAttributes
    return names
  }

  func attribute(_ name: PathName) throws(Errno) -> [UInt8] {
    guard let attribute = attributes[name] else { throw .noData }
    return try attribute.get()
  }

  func names() throws(Errno) -> SourceNames {
    if let failure { throw failure }
    var names = SourceNames(Array(items.keys))
    names.undecodable = undecodable
    return names
  }

  func item(_ name: PathName) throws(Errno) -> any SourceItem { try known(name) }

  func file(_ name: PathName) throws(Errno) -> any SourceItem {
    let item = try known(name)
    return item.successor ?? item
  }

  private func known(_ name: PathName) throws(Errno) -> FakeItem {
    guard let item = items[name] else { throw .noSuchFileOrDirectory }
    return item
  }

  func linkTarget() throws(Errno) -> PathName { throw .invalidArgument }

  func read(into buffer: UnsafeMutableRawBufferPointer, at position: UInt64) throws(Errno) -> Int {
    if let failure { throw failure }
    let rest = contents.dropFirst(Int(position)).prefix(buffer.count)
    unsafe buffer.copyBytes(from: rest)
    return rest.count
  }

  /// No holes.
  func seek(to position: UInt64, _ origin: SeekOrigin) throws(Errno) -> UInt64 {
    origin == .data ? position : own.size
  }
}
