import ProtectfsIO
import StoreFormat

/// A place in the store, in the backing directory and as the mount shows it. A place stores only its name and its
/// parent, so that a deep tree does not take the memory of all full paths.
final class Place: Sendable {
  private let parent: Place?
  private let name: PathName
  private let plainName: PathName?

  /// The root.
  init() {
    parent = nil
    name = ""
    plainName = ""
  }

  /// An entry of a directory; `plainName` is `nil` if it cannot be decrypted.
  init(_ name: PathName, plainName: PathName? = nil, in parent: Place) {
    self.parent = parent
    self.name = name
    self.plainName = plainName
  }

  /// An entry of the store's own directory, which the mount does not show.
  static func ofStore(_ name: PathName) -> Place {
    Place(name, in: Place(PathName(NameEncoding.storeDirectory), in: Place()))
  }

  var isRoot: Bool { parent == nil }

  /// The path below the backing directory, which is `/`.
  var backingPath: PathName {
    var names: [PathName] = []
    var current = self
    while let parent = current.parent {
      names.append(current.name)
      current = parent
    }
    return Self.path(of: names)
  }

  /// The path below the mount point, which is `/`.
  var path: PathName? {
    var names: [PathName] = []
    var current = self
    while let parent = current.parent {
      guard let name = current.plainName else { return nil }
      names.append(name)
      current = parent
    }
    return Self.path(of: names)
  }

  private static func path(of names: [PathName]) -> PathName {
    let slash = [UInt8(ascii: "/")]
    return names.isEmpty ? "/" : PathName(bytes: names.reversed().flatMap { slash + $0.bytes })
  }
}
