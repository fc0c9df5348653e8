import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

/// Told of what a restore does. Called from several threads.
package protocol RestoreObserver: Sendable {
  /// So many bytes more were copied.
  func copied(_ count: Int)
  func did(_ deed: RestoreRun.Deed, _ path: @autoclosure () -> String)
  /// A file is there already.
  func found()
  /// Something else is there, and was left alone.
  func differs(_ path: String)
  /// The rest of it was restored, or is there.
  func leftOut(_ omission: Omission, _ path: String)
  /// Returns whether the run is of no more use.
  func failed(_ error: CopyError, _ path: String) -> Bool
}

/// Brings what is in one tree, and missing or without a key in another, into that other one.
///
/// Paths are kept. No symbolic link is followed on either side, and no mount crossed. One thread walks the tree and
/// makes directories; files are copied by ``CopyThreads``.
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
  /// Files with several names. The layers of an overlay each have inode numbers of their own.
  private let linked = RankedMutex<[FileIdentity: FirstName]>(.restoredNames, [:])
  let progress: Progress

  /// Whether the run goes on.
  final class Progress: Sendable {
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
      : try CopyThreads { (count) throws(CopyError) in
        try progress.require()
        observer.copied(count)
      }
  }

  /// Restores everything in a directory. To be called once.
  package func restore(from source: any SourceItem) {
    var descent = Descent()
    attempt([]) { () throws(CopyError) in
      let metadata = try fromSource { () throws(Errno) in try FileMetadata(of: source) }
      leftOut(metadata.omissions + metadata.omissions(ofClass: target), [])
      let sides = Sides(source: source, target: target)
      let root = RestoredDirectory(".", sides, RestoredMetadata(metadata), in: nil) { $0 }
      try enter(root, sides, &descent)
    }
    while let place = descent.directory {
      if !progress.isStopped.load(ordering: .relaxed), let name = descent.nextName() {
        attempt(place.path + [name]) { () throws(CopyError) in
          let sides = try fromSource { () throws(Errno) in try descent.item() }
          try restore(name, in: place, sides, &descent)
        }
      } else {
        descent.leave()
        leave(place)
      }
    }
    threads?.end()
  }

  /// Runs `body` for one path; what fails is reported, and the run goes on where that is of use.
  func attempt(_ path: @autoclosure () -> [PathName], _ body: () throws(CopyError) -> Void) {
    do throws(CopyError) {
      try progress.require()
      try body()
    } catch {
      guard !progress.isStopped.load(ordering: .relaxed) else { return }
      if observer.failed(error, Self.text(path())) {
        progress.isStopped.store(true, ordering: .relaxed)
      }
    }
  }

  func leftOut(_ omissions: [Omission], _ path: @autoclosure () -> [PathName]) {
    for omission in omissions { observer.leftOut(omission, Self.text(path())) }
  }

  static func text(_ path: [PathName]) -> String {
    path.isEmpty ? "." : path.map(\.description).joined(separator: "/")
  }

  // MARK: Directories

  /// Where the walk is.
  typealias Descent = TreeDescent<Sides, RestoredMetadata>

  /// Has the walk go down into a directory.
  func enter(_ place: RestoredDirectory, _ sides: Sides, _ descent: inout Descent) throws(CopyError) {
    var isEntered = false
    defer { if !isEntered { leave(place) } }
    let listed = try fromSource { () throws(Errno) in try sides.source.names() }
    leftOut(listed.undecodable.map { .name($0) }, place.path)
    if !options.isDryRun, let target = sides.target {
      // What a killed run has left; one that is in use stays.
      let there = Set((try? target.names().usable.filter(TemporaryName.isOne)) ?? [])
      for name in there.subtracting(listed.usable) { try? TemporaryEntry.removeLeftover(name, in: target) }
    }
    descent.enter(place, sides, listed.usable.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) })
    isEntered = true
  }

  /// Says that something in a directory is done.
  func leave(_ place: RestoredDirectory) {
    var done: RestoredDirectory? = place
    while let place = done, place.label.leave() {
      if !options.isDryRun, !progress.isStopped.load(ordering: .relaxed) {
        attempt(place.path) { () throws(CopyError) in try onTarget(place.finish) }
      }
      done = place.parent
    }
  }

  /// Makes a directory that has all of its metadata when it gets its name, but that the owner can write to it. Returns
  /// what it does not have.
  func makeDirectory(
    _ name: PathName, in parent: SharedDescriptor, _ metadata: FileMetadata
  ) throws(CopyError) -> [Omission] {
    let temporary = TemporaryEntry(for: name, in: parent)
    try temporary.make { (directory, name) throws(Errno) in try directory.makeDirectory(name, mode: 0o700) }
    let made = try onTarget { () throws(Errno) in
      let made = SharedDescriptor(try parent.descriptor.open(temporary.name, [.path, .directory, .noFollow]))
      // What is made in it takes its class.
      try metadata.fileClass(in: parent)?.assign(to: PathName(descriptor: made.descriptor))
      return made
    }
    let omissions = try metadata.apply(to: made, adding: 0o700)
    try temporary.takeName(replacing: nil)
    return omissions
  }

  // MARK: Hard links

  /// Where a file of the source was restored to, if it has several names and one of them is there.
  func firstName(of status: Status) -> FirstName? {
    status.links > 1 ? linked.withLock { $0[status.identity] } : nil
  }

  /// Notes where a file was restored to.
  func note(_ status: Status, restoredAs inode: UInt64, _ path: [PathName]) {
    guard status.links > 1 else { return }
    let identity = status.identity
    linked.withLock { if $0[identity] == nil { $0[identity] = (inode, path) } }
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
    guard !status.isOutside(sourceDevice) else { throw .source(.improperLink) }
  }

  /// The status of what has a name in a directory of the target; `nil` where nothing has.
  func existing(_ name: PathName, in target: SharedDescriptor?) throws(CopyError) -> Status? {
    guard let target else { return nil }
    do throws(Errno) {
      let status = try target.descriptor.status(of: name)
      guard !status.isOutside(targetDevice) else { throw .improperLink }
      return status
    } catch {
      guard error == .noSuchFileOrDirectory else { throw .target(error) }
      return nil
    }
  }
}
