import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// The long symlink files, and which of them are named by links.
final class LongSymlinkFiles {
  private let store: Descriptor
  private var named: Set<[UInt8]> = []
  private static let name = PathName(LongTarget.directory)

  /// - Parameter store: the store's own directory.
  init(store: borrowing Descriptor) throws(Errno) {
    self.store = try store.open(".", [.readOnly, .directory])
  }

  /// The encrypted target that a link names; `nil` if its long symlink file is missing or has another length.
  func encryptedTarget(_ target: LongTarget) throws(Errno) -> [UInt8]? {
    named.insert(target.token)
    do throws(Errno) {
      let directory = try store.open(Self.name, [.readOnly, .directory, .noFollow])
      let file = try directory.open(PathName(bytes: target.fileName), [.readOnly, .noFollow, .nonBlocking])
      let encrypted = try file.readAll(limit: target.fileSize + 1)
      return encrypted.count == target.fileSize ? encrypted : nil
    } catch .noSuchFileOrDirectory {
      return nil
    } catch .tooManySymbolicLinkLevels {
      return nil
    }
  }

  /// Moves a long symlink file out of its place, if it exists.
  func move(_ target: LongTarget, _ repair: Repair) throws(Errno) {
    do throws(Errno) {
      let directory = try store.open(Self.name, [.readOnly, .directory, .noFollow])
      _ = try repair.move(PathName(bytes: target.fileName), from: directory)
    } catch .noSuchFileOrDirectory {
      // The missing file is the defect itself.
    }
  }

  /// Reports the long symlink files that no link names. They are known only after the whole tree was checked without an
  /// error, since a link may be in a part that the check did not reach, and while no repair has moved links out of it.
  func checkOrphans(_ findings: Findings) {
    guard findings.summary.errors == 0, !hasMovedLinks else { return }
    let place = Place.ofStore(Self.name)
    do throws(Errno) {
      let directory = SharedDescriptor(try store.open(Self.name, [.readOnly, .directory, .noFollow]))
      while true {
        let names = try directory.descriptor.nextNames()
        if names.isEmpty { return }
        for name in names { check(name, in: directory, place, findings) }
      }
    } catch .noSuchFileOrDirectory {
      // The store has never had a link with a long target.
    } catch {
      findings.report(.unreadable, at: place, "\(error)")
    }
  }

  /// Whether a link, or a directory that may have some, is where repairs move things.
  private var hasMovedLinks: Bool {
    do throws(Errno) {
      let moved = try store.open(Repair.name, [.readOnly, .directory, .noFollow])
      while true {
        let names = try moved.nextNames()
        if names.isEmpty { return false }
        for name in names where try moved.status(of: name).type != .regular { return true }
      }
    } catch {
      return error != .noSuchFileOrDirectory
    }
  }

  private func check(_ name: PathName, in directory: SharedDescriptor, _ place: Place, _ findings: Findings) {
    if let token = LongTarget.token(ofFile: name.bytes), named.contains(token) { return }
    findings.report(.orphanTarget, at: Place(name, in: place)) { (repair) throws(Errno) in
      try repair.move(name, from: directory.descriptor)
    }
  }
}
