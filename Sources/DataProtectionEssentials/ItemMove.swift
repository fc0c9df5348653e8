import FoundationEssentials
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// Moves an item from or to a mount.
struct ItemMove {
  private let manager: FileManager
  private let allowsPlaintext: Bool

  init(_ manager: FileManager, allowsPlaintext: Bool) {
    self.manager = manager
    self.allowsPlaintext = allowsPlaintext
  }

  func run(from source: String, to target: String) throws(CocoaError) {
    let (sourceURL, targetURL) = (URL(fileURLWithPath: source), URL(fileURLWithPath: target))
    guard manager.delegate?.fileManager(manager, shouldMoveItemAt: sourceURL, to: targetURL) ?? true else { return }
    func mayProceed(after error: CocoaError) -> Bool {
      manager.delegate?.fileManager(
        manager, shouldProceedAfterError: error, movingItemAt: sourceURL, to: targetURL) ?? false
    }
    do throws(CocoaError) {
      do throws(CocoaError) {
        try move(source, target, mayReplace: false)
      } catch {
        guard error.code == .fileWriteFileExists, mayProceed(after: error) else { throw error }
        // As Foundation does: who ignores that the target exists has it replaced.
        try move(source, target, mayReplace: true)
      }
    } catch {
      guard error.code != .fileWriteFileExists, mayProceed(after: error) else { throw error }
    }
  }

  private func move(_ source: String, _ target: String, mayReplace: Bool) throws(CocoaError) {
    let (from, name) = try place(of: source)
    let (to, newName) = try place(of: target)
    do throws(Errno) {
      return try from.descriptor.rename(
        name, to: newName, in: to.descriptor, flags: mayReplace ? [] : .noReplace)
    } catch {
      // Between file systems, and between two mounts of one.
      guard error == .improperLink else {
        throw CocoaError(error, .writing, path: error == .noSuchFileOrDirectory ? source : target)
      }
    }
    // The delegate is not asked: what it left out would be lost.
    let rules = ItemCopy.Rules(isMove: true, allowsPlaintext: allowsPlaintext, mayReplace: mayReplace)
    let moved = try ItemCopy(rules).run(from: source, to: target)
    try moved.remove(name, in: from.descriptor, at: source)
  }

  /// The directory and the name of a path.
  private func place(of path: String) throws(CocoaError) -> (SharedDescriptor, PathName) {
    try translating(.writing, path) { () throws(Errno) in
      let parent = try Descriptor.open(PathName(FileManager.parent(of: path)), [.path, .directory])
      return (SharedDescriptor(parent), PathName(URL(fileURLWithPath: path).lastPathComponent))
    }
  }
}
