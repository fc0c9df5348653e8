import Cryptography
import ProtectfsIO
import StoreFormat
import SystemPackage

/// The files with the targets that are too long for a backing link, and which of them links name.
final class TargetFiles {
  private let store: Descriptor
  private var named: Set<[UInt8]> = []
  private static let name = PathName(LongTarget.directory)

  /// - Parameter store: the store's own directory.
  init(store: borrowing Descriptor) throws(Errno) {
    self.store = try store.open(".", [.readOnly, .directory])
  }

  /// The sealed target that a link names; `nil` when its file is missing, or of another length.
  func sealedTarget(_ target: LongTarget) throws(Errno) -> [UInt8]? {
    named.insert(target.token)
    do throws(Errno) {
      let directory = try store.open(Self.name, [.readOnly, .directory, .noFollow])
      let file = try directory.open(PathName(bytes: target.fileName), [.readOnly, .noFollow, .nonBlocking])
      let sealed = try file.readAll(limit: target.fileSize + 1)
      return sealed.count == target.fileSize ? sealed : nil
    } catch .noSuchFileOrDirectory {
      return nil
    } catch .tooManySymbolicLinkLevels {
      return nil
    }
  }

  /// Takes a target file out of its place, if it is there.
  func move(_ target: LongTarget, _ repair: Repair) throws(Errno) {
    do throws(Errno) {
      let directory = try store.open(Self.name, [.readOnly, .directory, .noFollow])
      _ = try repair.move(PathName(bytes: target.fileName), from: directory)
    } catch .noSuchFileOrDirectory {
      // That it is missing is what is wrong.
    }
  }

  /// Reports the files that no link names. Only after the whole tree was gone through without an error is it known which
  /// those are: a link may be where the check did not get to.
  func checkOrphans(_ findings: Findings) {
    guard findings.summary.errors == 0 else { return }
    let place = Place.ofStore(Self.name)
    do throws(Errno) {
      let directory = SharedDescriptor(try store.open(Self.name, [.readOnly, .directory, .noFollow]))
      while true {
        let names = try directory.descriptor.nextNames()
        if names.isEmpty { return }
        for name in names { check(name, in: directory, place, findings) }
      }
    } catch .noSuchFileOrDirectory {
      // No link of the store has ever had a long target.
    } catch {
      findings.report(.unreadable, at: place, "\(error)")
    }
  }

  private func check(_ name: PathName, in directory: SharedDescriptor, _ place: Place, _ findings: Findings) {
    if let token = LongTarget.token(ofFile: name.bytes), named.contains(token) { return }
    findings.report(.orphanTarget, at: Place(name, in: place)) { (repair) throws(Errno) in
      try repair.move(name, from: directory.descriptor)
    }
  }
}
