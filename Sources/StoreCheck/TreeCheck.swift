import Contents
import Cryptography
import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage

/// Walks the tree of a store, one entry at a time. Follows no symbolic links and crosses no mounts.
///
/// In memory are the directories on the path from the root to the current entry, each with a batch of a few hundred
/// names.
final class TreeCheck {
  let keys: CheckKeys
  let findings: Findings
  let targets: LongSymlinkFiles
  let layout: ContentsLayout
  let options: StoreCheck.Options
  /// `nil` if contents are not read.
  let contents: ContentsCheck?
  /// The batches of rekeys in progress; `nil` where they cannot be read.
  let batches: [RekeyBatch]?
  private var visits: [Visit] = []
  /// The number of directories, counted from the deepest, that keep a descriptor.
  private let mostOpened: Int
  private let device: UInt64

  init(
    _ backing: borrowing Descriptor, keys: CheckKeys, findings: Findings, targets: LongSymlinkFiles,
    batches: [RekeyBatch]? = [], layout: ContentsLayout, options: StoreCheck.Options, mostOpened: Int = 128
  ) throws(Errno) {
    self.keys = keys
    self.targets = targets
    self.batches = batches
    self.layout = layout
    self.findings = findings
    self.mostOpened = mostOpened
    self.options = options
    contents =
      options.contains(.contents)
      ? ContentsCheck(countBytes: findings.countBytes) { place, damage in
        let last = damage.first.upperBound - 1
        let rest = damage.count - UInt64(damage.first.count)
        let more = rest > 0 ? " and \(rest) more" : ""
        let reason = damage.error.damage ?? "\(damage.error)"
        findings.report(
          .contentsDamaged, at: place, "bytes \(damage.first.lowerBound) to \(last)\(more): \(reason)")
      } : nil
    let root = try backing.open(".", [.readOnly, .directory])
    device = try root.status().device
    let place = Place()
    let identifier = try checkRoot(root, at: place)
    visits.append(try Visit(root, at: place, identifier: identifier))
  }

  /// Checks the whole tree.
  func run() {
    while let visit = visits.last {
      do throws(Errno) {
        if let name = try visit.nextName() {
          if let below = try check(name, in: visit) { try enter(below) }
        } else {
          try leave(visit)
        }
      } catch {
        // The rest of the directory cannot be read.
        findings.report(.unreadable, at: visit.place, "\(error)")
        visits.removeLast()
        resumeLast(from: visit)
      }
    }
    contents?.finish()
  }

  private func enter(_ visit: Visit) throws(Errno) {
    visits.append(visit)
    if visits.count > mostOpened { try visits[visits.count - mostOpened - 1].suspend() }
  }

  private func leave(_ visit: Visit) throws(Errno) {
    if visit.isChanged { try visit.opened.descriptor.synchronize() }
    visits.removeLast()
    resumeLast(from: visit)
  }

  /// Makes sure that the deepest directory is open, and abandons those that cannot be opened again.
  private func resumeLast(from child: Visit) {
    while let last = visits.last {
      do throws(Errno) {
        try last.resume(from: child)
        return
      } catch {
        findings.report(.unreadable, at: last.place, "\(error)")
        visits.removeLast()
      }
    }
  }

  /// Checks an entry. Returns it if it is a directory to visit.
  private func check(_ name: PathName, in visit: Visit) throws(Errno) -> Visit? {
    if visit.place.isRoot, Self.ownNames.contains(name) { return nil }
    return try visit.searching(findings.repair == nil ? 0o500 : 0o700) { (directory) throws(Errno) in
      look(at: name, in: directory, visit)
    }
  }

  private func look(at name: PathName, in directory: SharedDescriptor, _ visit: Visit) -> Visit? {
    var place = Place(name, in: visit.place)
    findings.countEntry()
    do throws(Errno) {
      let file = try directory.descriptor.open(name, [.path, .noFollow])
      let status = try file.status()
      guard !status.isOutside(device) else {
        findings.report(.otherFileSystem, at: place)
        return nil
      }
      var entry = Entry(name: name, sidecar: nil, directory: directory, visit: visit, place: place)
      if let identifier = visit.identifier {
        let decoded = try EntryName(name, in: directory.descriptor, identifier: identifier, keys.volume)
        switch decoded {
        case .plain(let plain, let sidecar):
          place = Place(name, plainName: plain, in: visit.place)
          entry = Entry(name: name, sidecar: sidecar, directory: directory, visit: visit, place: place)
        case .sidecar(let hasFile):
          checkSidecar(entry, status, hasFile: hasFile)
          return nil
        case .wrong(let defect, let sidecar):
          entry.sidecar = sidecar
          findings.report(defect, at: place, mend: entry.move)
          return nil
        }
      } else if case .sidecar = NameEncoding.parse(name.bytes) {
        return nil
      }
      switch status.type {
      case .regular: try checkFile(file, status, entry)
      case .directory: return try checkDirectory(file, entry)
      case .symbolicLink: try checkSymbolicLink(file, entry)
      default: break
      }
    } catch .noSuchFileOrDirectory {
      // It was moved just now, as a sidecar with its file.
    } catch {
      findings.report(.unreadable, at: place, "\(error)")
    }
    return nil
  }

  /// Entries of the root outside the tree. `lost+found` belongs to the backing file system's checker, if the backing
  /// directory is the root of that file system.
  private static let ownNames: Set<PathName> = [PathName(NameEncoding.storeDirectory), "lost+found"]
}

/// An entry being checked, with what a repair needs to move it.
struct Entry {
  let name: PathName
  /// The sidecar that belongs to it.
  var sidecar: PathName?
  let directory: SharedDescriptor
  let visit: Visit
  let place: Place

  /// Moves it out of the tree.
  func move(_ repair: Repair) throws(Errno) -> Finding.Outcome {
    visit.isChanged = true
    return try repair.move(name, sidecar: sidecar, from: directory.descriptor)
  }

  /// Removes its name.
  func remove() throws(Errno) -> Finding.Outcome {
    visit.isChanged = true
    try directory.descriptor.unlink(name)
    return .fixed
  }
}
