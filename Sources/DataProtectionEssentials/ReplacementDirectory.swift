import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The temporary directory in which a program makes the item that will replace another.
package enum ReplacementDirectory {
  /// Makes one beside an item on a mount, or in it if it is the mount's root, for this user alone. What is created in
  /// it has the class of the item or, if there is none yet, of its directory. `nil` if the item is not on a mount.
  ///
  /// It is the caller's to remove, so it has not the name of a staging directory, which are removed when nobody uses
  /// them.
  package static func make(for path: String) throws(CocoaError) -> String? {
    try translating(.writing, path) { () throws(Errno) in
      guard let place = try place(for: path) else { return nil }
      let parent = try Descriptor.open(PathName(place), [.path, .directory])
      let name = ".\(UUID().uuidString).replacement"
      try parent.makeDirectory(PathName(name), mode: 0o700)
      let made = place.hasSuffix("/") ? "\(place)\(name)" : "\(place)/\(name)"
      do throws(Errno) {
        try assignClass(ofItemAt: path, to: made)
      } catch {
        // The error of the class is the one to report.
        try? parent.removeDirectory(PathName(name))
        throw error
      }
      return made
    }
  }

  /// The directory on a mount in which one is made.
  private static func place(for path: String) throws(Errno) -> String? {
    for place in [FileManager.parent(of: path), path] {
      guard let directory = try? Descriptor.open(PathName(place), [.path, .directory]) else { continue }
      if try MountedFileSystem.find(containing: directory) != nil { return place }
    }
    return nil
  }

  private static func assignClass(ofItemAt path: String, to directory: String) throws(Errno) {
    guard let item = try? Descriptor.open(PathName(path), [.path, .noFollow]) else { return }
    let type = try item.status().type
    // Links and pipes have no class.
    guard type == .regular || type == .directory, try MountedFileSystem.find(containing: item) != nil else { return }
    let wanted = try ProtectionClass(ofItemAt: PathName(descriptor: item).description)
    if try ProtectionClass(ofItemAt: directory) != wanted { try wanted.assign(toItemAt: directory) }
  }
}
