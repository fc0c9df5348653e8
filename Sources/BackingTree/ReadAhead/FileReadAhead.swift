import ProtectfsIO
import StoreFormat
import Synchronization
import SystemPackage

/// Has the backing file system read the files of a directory ahead of a program that reads one after another: a search,
/// an archive, a copy. It would otherwise wait for the disk at each.
///
/// What is read is ciphertext, and stays in the page cache of the backing files. A file is opened for that by its
/// backing name, and closed at once.
package final class FileReadAhead: Sendable {
  /// So many directories are watched at a time.
  private static let mostScans = 8
  /// So many threads read ahead at a time.
  private static let mostThreads = 2
  /// A directory with more files is left alone.
  private static let mostFiles = 1 << 14
  /// How much of each file is read ahead, in bytes.
  private static let length: UInt64 = 1 << 17

  private struct Scan {
    let directory: Node
    var progress = DirectoryScan()
    var hasThread = false
  }

  private struct State {
    /// The last used is the last.
    var scans: [Scan] = []
    var threads = 0
    /// The order of the last scan, if it was of use.
    var order: DirectoryScan.Order?
  }

  private let state = RankedMutex(.readAhead, State())
  /// Opened files are of interest to some scan.
  private let isScanning = Atomic(false)

  // MARK: What programs do

  /// The first read of a file has waited for the disk.
  package func waited(for node: Node, in tree: BackingTree) {
    guard let directory = node.location?.parent else { return }
    let starts = change(directory, adds: true) { state, scan in
      guard scan.progress.waited(for: node.identity.inode, expected: state.order), Self.beginThread(&scan, &state)
      else {
        return false
      }
      scan.progress.beginLoading(expected: state.order)
      return true
    }
    if starts ?? false { startThread(for: directory, in: tree) }
  }

  /// A file was opened to be read.
  package func opened(_ node: Node, in tree: BackingTree) {
    guard isScanning.load(ordering: .relaxed), let directory = node.location?.parent else { return }
    let starts = change(directory) { state, scan in
      scan.progress.opened(node.identity.inode) && Self.beginThread(&scan, &state)
    }
    if starts ?? false { startThread(for: directory, in: tree) }
  }

  // MARK: Scans

  /// Changes the scan of a directory, and removes it if it is over. Returns `nil` if there is none.
  @discardableResult
  private func change<Result>(
    _ directory: Node, adds: Bool = false, _ body: (inout State, inout Scan) -> Result
  ) -> Result? {
    // The last reference to a directory closes it, which is not done under the lock.
    let (result, removed, oldest) = state.withLock { state -> (Result?, Scan?, Scan?) in
      let index = state.scans.firstIndex { $0.directory === directory }
      guard adds || index != nil else { return (nil, nil, nil) }
      var scan = index.map { state.scans.remove(at: $0) } ?? Scan(directory: directory)
      let wasGivenUp = scan.progress.isGivenUp
      let result = body(&state, &scan)
      // It is kept, and would begin anew with the order that was wrong.
      if !wasGivenUp, scan.progress.isGivenUp { state.order = nil }
      let removed = scan.progress.isOver ? scan : nil
      if removed == nil { state.scans.append(scan) }
      let oldest = state.scans.count > Self.mostScans ? state.scans.removeFirst() : nil
      for gone in [removed, oldest] {
        guard let gone, let order = gone.progress.order else { continue }
        state.order = gone.progress.isFruitful ? order : nil
      }
      isScanning.store(state.scans.contains { $0.progress.isRunning }, ordering: .relaxed)
      return (result, removed, oldest)
    }
    withExtendedLifetime((removed, oldest)) {}
    return result
  }

  /// Returns whether a thread may begin to read ahead.
  private static func beginThread(_ scan: inout Scan, _ state: inout State) -> Bool {
    if scan.hasThread || state.threads >= mostThreads { return false }
    scan.hasThread = true
    state.threads += 1
    return true
  }

  // MARK: Threads

  private func startThread(for directory: Node, in tree: BackingTree) {
    do throws(Errno) {
      try Thread(starting: "read-ahead") { [self] in
        // It begins on the processor of a client, and may be bound to that.
        CommandRing.unbindThread()
        endThread(for: directory, isFailed: !work(on: directory, in: tree))
      }.detach()
    } catch {
      endThread(for: directory, isFailed: true)
    }
  }

  private func endThread(for directory: Node, isFailed: Bool) {
    state.withLock { $0.threads -= 1 }
    change(directory) { _, scan in
      scan.hasThread = false
      if isFailed { scan.progress.giveUp() }
    }
  }

  /// Returns `false` if nothing is known of what comes next. An error of a file is reported when a program opens it.
  private func work(on directory: Node, in tree: BackingTree) -> Bool {
    guard let handle = directory.state.withLock({ $0.handle }) else { return false }
    if change(directory, { !$1.progress.isRunning }) ?? false {
      guard let listing = try? Self.regularFiles(of: handle), listing.count <= Self.mostFiles else {
        return false
      }
      let isInOrder = DirectoryScan.Order.allCases.contains { order in
        guard let files = try? Self.sorted(listing, by: order, directory, tree) else { return false }
        return change(directory) { $1.progress.load(files, in: order) } ?? true
      }
      if !isInOrder { return false }
    }
    while let batch = change(directory, { $1.progress.takeNext() }), !batch.isEmpty {
      for file in batch {
        let flags: OpenFlags = [.readOnly, .noFollow, .nonBlocking, .keepAccessTime]
        (try? handle.descriptor.open(file.name, flags))?.readAhead(Self.length)
      }
    }
    return true
  }

  /// Nothing changes for this: no access time moves, and no permission is lent.
  private static func regularFiles(of directory: SharedDescriptor) throws(Errno) -> [DirectoryScan.Entry] {
    let path = PathName(descriptor: directory.descriptor)
    let stream = DirectoryStream(try Descriptor.open(path, [.readOnly, .directory, .keepAccessTime]))
    var files: [DirectoryScan.Entry] = []
    try stream.entries(from: 0) { (entry) throws(Errno) in
      if entry.type == InodeType.regular.rawValue {
        files.append(DirectoryScan.Entry(name: entry.name, inode: entry.inode))
      }
      return files.count <= mostFiles
    }
    return files
  }

  private static func sorted(
    _ listing: [DirectoryScan.Entry], by order: DirectoryScan.Order, _ directory: Node, _ tree: BackingTree
  ) throws(Errno) -> [DirectoryScan.Entry] {
    switch order {
    case .listing: return listing
    case .inodes: return listing.sorted { $0.inode < $1.inode }
    case .names:
      let record = try tree.directory(directory).record
      let named =
        listing.compactMap { entry in
          // Long names have files of their own, which are not read for this.
          guard case .direct(let encrypted) = NameEncoding.parse(entry.name.bytes) else { return nil }
          return tree.volume.entryName(encrypted, in: record.identifier).map { (name: $0, entry: entry) }
        } as [(name: PathName, entry: DirectoryScan.Entry)]
      return named.sorted { $0.name.bytes.lexicographicallyPrecedes($1.name.bytes) }.map(\.entry)
    }
  }
}
