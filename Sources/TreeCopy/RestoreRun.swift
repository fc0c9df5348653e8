import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

/// Told of what a restore does. Called from several threads.
package protocol RestoreObserver: Sendable {
  /// So many bytes more were copied.
  func copied(_ count: Int)
  func did(_ deed: RestoreRun.Deed, _ path: String)
  /// A file is there already.
  func found()
  /// Something else is there, and was left alone.
  func differs(_ path: String)
  /// Returns whether the run is of no more use.
  func failed(_ error: CopyError, _ path: String) -> Bool
}

/// Brings what is in one tree, and missing or without a key in another, into that other one.
///
/// Paths are kept. No symbolic link is followed on either side, and no mount crossed. One thread walks the tree and makes
/// directories; files are copied by ``CopyThreads``.
package final class RestoreRun: Sendable {
  package struct Options: Sendable {
    let overwrites: Bool
    let isDryRun: Bool

    package init(overwrites: Bool, isDryRun: Bool) {
      self.overwrites = overwrites
      self.isDryRun = isDryRun
    }
  }

  /// What is done with one file, directory or whatever else.
  package enum Deed: String, Sendable {
    /// A file that was missing.
    case copied = "copy"
    /// An orphan, or where that is wanted whatever was there.
    case replaced = "replace"
    case directory = "make directory"
    /// One more name of a file that was copied.
    case link = "link"
    /// A symbolic link, a fifo, a socket or a device.
    case other = "make"
  }

  /// Where a file with several names was restored to.
  typealias FirstName = (inode: UInt64, path: [PathName])

  let options: Options
  let observer: any RestoreObserver
  let threads: CopyThreads?
  private let target: SharedDescriptor
  private let sourceDevice: UInt64
  private let targetDevice: UInt64
  /// Files with several names, by inode number in the source.
  private let linked = RankedMutex<[UInt64: FirstName]>(.restoredNames, [:])
  private let progress: Progress

  /// Whether the run goes on.
  private final class Progress: Sendable {
    let isStopped = Atomic(false)
    private let isCancelled: @Sendable () -> Bool

    init(_ isCancelled: @escaping @Sendable () -> Bool) { self.isCancelled = isCancelled }

    func require() throws(CopyError) {
      if isStopped.load(ordering: .relaxed) || isCancelled() { throw .interrupted }
    }
  }

  /// - Parameter isCancelled: whether to end; asked before each file and for each piece of one.
  package init(
    from source: any SourceItem, to target: SharedDescriptor, _ options: Options, _ observer: any RestoreObserver,
    isCancelled: @escaping @Sendable () -> Bool
  ) throws(Errno) {
    self.options = options
    self.observer = observer
    self.target = target
    sourceDevice = try source.status().device
    targetDevice = try target.descriptor.status().device
    let progress = Progress(isCancelled)
    self.progress = progress
    threads =
      options.isDryRun
      ? nil
      : CopyThreads { (count) throws(CopyError) in
        try progress.require()
        observer.copied(count)
      }
  }

  /// Restores everything in a directory. To be called once.
  package func restore(from source: any SourceItem) {
    attempt([]) { () throws(CopyError) in
      let metadata = try fromSource { () throws(Errno) in try FileMetadata(of: source) }
      try contents(of: RestoredDirectory(source, target, [], metadata, in: nil))
    }
    threads?.end()
  }

  /// Runs `body` for one path; what fails is reported, and the run goes on where that is of use.
  func attempt(_ path: [PathName], _ body: () throws(CopyError) -> Void) {
    do throws(CopyError) {
      try progress.require()
      try body()
    } catch {
      guard !progress.isStopped.load(ordering: .relaxed) else { return }
      if observer.failed(error, path.isEmpty ? "." : Self.text(path)) {
        progress.isStopped.store(true, ordering: .relaxed)
      }
    }
  }

  static func text(_ path: [PathName]) -> String { path.map(\.description).joined(separator: "/") }

  // MARK: Directories

  /// Restores what is in a directory, and the rest of it when that is done.
  func contents(of place: RestoredDirectory) throws(CopyError) {
    defer { leave(place) }
    let names = try fromSource { () throws(Errno) in try place.source.names() }
    let there = place.target.flatMap { try? $0.names() }.map { Set($0) }
    if !options.isDryRun, let target = place.target {
      // What a killed run has left; one that is in use stays.
      for name in there?.subtracting(names) ?? [] where TemporaryName.isOne(name) {
        try? TemporaryEntry.removeLeftover(name, in: target)
      }
    }
    for name in names.sorted(by: { $0.bytes.lexicographicallyPrecedes($1.bytes) }) {
      if progress.isStopped.load(ordering: .relaxed) { return }
      // What a killed run into the source has left there.
      guard !TemporaryName.isOne(name) else { continue }
      attempt(place.path + [name]) { () throws(CopyError) in
        try restore(name, in: place, mayExist: there?.contains(name) ?? true)
      }
    }
  }

  /// Says that something in a directory is done.
  func leave(_ place: RestoredDirectory) {
    place.leave { place in
      guard !options.isDryRun, !progress.isStopped.load(ordering: .relaxed) else { return }
      attempt(place.path) { () throws(CopyError) in try onTarget(place.finish) }
    }
  }

  /// Makes a directory that has all of its metadata when it gets its name, but that the owner can write to it.
  func makeDirectory(_ name: PathName, in parent: SharedDescriptor, _ metadata: FileMetadata) throws(CopyError) {
    let temporary = TemporaryEntry(for: name, in: parent)
    try temporary.make { (directory, name) throws(Errno) in try directory.makeDirectory(name, mode: 0o700) }
    let made = try onTarget { () throws(Errno) in
      let made = SharedDescriptor(try parent.descriptor.open(temporary.name, [.path, .directory, .noFollow]))
      // What is made in it takes its class.
      try metadata.fileClass?.assign(to: PathName(descriptor: made.descriptor))
      return made
    }
    try metadata.apply(to: made, adding: 0o700)
    try temporary.takeName(replacing: nil)
  }

  // MARK: Hard links

  /// Where the file of a source's inode number was restored to, if it has several names and one of them is there.
  func firstName(of status: Status) -> FirstName? { status.links > 1 ? linked.withLock { $0[status.inode] } : nil }

  /// Notes where a file was restored to.
  func note(_ status: Status, restoredAs inode: UInt64, _ path: [PathName]) {
    guard status.links > 1 else { return }
    linked.withLock { if $0[status.inode] == nil { $0[status.inode] = (inode, path) } }
  }

  /// Opens what was restored to a path, without access; no link on the way is followed.
  func restored(_ path: [PathName]) throws(Errno) -> SharedDescriptor {
    var current = target
    for name in path.dropLast() {
      current = SharedDescriptor(try current.descriptor.open(name, [.path, .directory, .noFollow]))
    }
    return SharedDescriptor(try current.descriptor.open(path.last!, [.path, .noFollow]))
  }

  // MARK: Other file systems

  /// What is mounted below the source is not of the source.
  func requireSourceDevice(_ status: Status) throws(CopyError) {
    guard status.device == sourceDevice, status.is_mount_root == 0 else { throw .source(.improperLink) }
  }

  /// The status of what has a name in a directory of the target; `nil` where nothing has.
  func existing(_ name: PathName, in target: SharedDescriptor?) throws(CopyError) -> Status? {
    guard let target else { return nil }
    do throws(Errno) {
      let status = try target.descriptor.status(of: name)
      guard status.device == targetDevice, status.is_mount_root == 0 else { throw .improperLink }
      return status
    } catch {
      guard error == .noSuchFileOrDirectory else { throw .target(error) }
      return nil
    }
  }
}
