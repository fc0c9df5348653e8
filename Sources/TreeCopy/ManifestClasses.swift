import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Gives files the classes that a manifest says.
package struct ManifestClasses {
  private let root: SharedDescriptor
  private let rootPath: String

  /// - Parameter directory: where the manifest's paths start.
  package init(_ directory: String) throws(Errno) {
    rootPath = directory
    root = SharedDescriptor(try Descriptor.open(PathName(directory), [.readOnly, .directory]))
  }

  /// Applies a manifest; what fails is reported, and the rest is still done. Returns how many items were changed.
  ///
  /// - Parameter report: told of each item what came of it; `nil` where nothing failed.
  package func apply(_ manifest: Manifest, report: (String, Errno?) -> Void) -> Int {
    var changed = 0
    for item in manifest.items {
      var failure: Errno?
      do throws(Errno) {
        if try apply(item) { changed += 1 }
      } catch {
        failure = error
      }
      report("\(rootPath)/\(item.path)", failure)
    }
    return changed
  }

  /// Returns whether something had to be changed: a class that is right is left alone, also where it is locked.
  private func apply(_ item: Manifest.Item) throws(Errno) -> Bool {
    let name = PathName(ProtectionClass.attributeName)
    let file = try open(item.path)
    let path = PathName(descriptor: file)
    let value = Array(item.protectionClass.name.utf8)
    let isExplicit = try path.attributeNames().contains(name)
    let isRight = try path.attribute(name) == value
    if isRight && isExplicit == item.isExplicit { return false }
    if !isRight || item.isExplicit { try path.setAttribute(name, to: value) }
    if !item.isExplicit { try path.removeAttribute(name) }
    return true
  }

  /// Opens an item below the directory without following links: a manifest may come from somebody else.
  private func open(_ path: String) throws(Errno) -> Descriptor {
    var current = try root.descriptor.open(".", [.path, .directory])
    if path == "." { return current }
    // By bytes, as the kernel takes names.
    for component in path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
      let name = PathName(bytes: component)
      guard name.isEntryName else { throw .invalidArgument }
      current = try current.open(name, [.path, .noFollow])
    }
    return current
  }
}
