import ProtectfsIO
import StoreFormat
import SystemPackage

/// Where hosts leave what others are to find: `.protectfs/hosts`.
enum HostDirectory {
  private static let name: PathName = "hosts"

  /// Opens it in the store's own directory.
  static func open(in store: borrowing Descriptor) throws(Errno) -> Descriptor {
    try store.open(name, [.readOnly, .directory, .noFollow])
  }

  /// Opens it, and makes it where there is none.
  static func make(in store: borrowing Descriptor) throws(Errno) -> Descriptor {
    do throws(Errno) { return try open(in: store) } catch { guard error == .noSuchFileOrDirectory else { throw error } }
    do throws(Errno) { try store.makeDirectory(name, mode: 0o700) } catch {
      guard error == .fileExists else { throw error }
    }
    try store.synchronize()
    return try open(in: store)
  }

  /// The content of a file of a known length; `nil` where there is none.
  static func read(_ name: PathName, in directory: borrowing Descriptor, limit: Int) -> [UInt8]? {
    guard let file = try? directory.open(name, [.readOnly, .noFollow, .nonBlocking]),
      (try? file.status())?.type == .regular
    else { return nil }
    return try? file.readAll(limit: limit)
  }
}
