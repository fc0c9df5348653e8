import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Brings what is in one tree, and missing or without a key in another, into that other one.
///
/// Paths are kept. No symbolic link is followed on either side, and no mount crossed.
final class RestoreRun {
  struct Options {
    var overwrites = false
    var isDryRun = false
  }

  /// The directory of a step on both sides. There is none in the target in a dry run that would make it.
  struct Place {
    let source: SharedDescriptor
    let target: SharedDescriptor?
    /// From the root of the trees.
    let path: [PathName]
  }

  let options: Options
  let report: RestoreReport
  let mount: MountedFileSystem
  let copier: VerifiedCopy
  let interruption: Interruption
  private let target: SharedDescriptor
  private let sourceDevice: UInt64
  let targetDevice: UInt64
  /// The files with several names that have been restored: by inode number in the source, inode number and path of the
  /// first in the target.
  private var linked: [UInt64: (inode: UInt64, path: [PathName])] = [:]

  /// Ends the run.
  struct Stop: Error {
    let failure: CommandFailure
  }

  init(
    to target: SharedDescriptor, on mount: MountedFileSystem, from source: SharedDescriptor, _ options: Options,
    _ report: RestoreReport, _ interruption: Interruption
  ) throws(Errno) {
    self.options = options
    self.report = report
    self.mount = mount
    self.target = target
    self.interruption = interruption
    sourceDevice = try source.descriptor.status().device
    targetDevice = try target.descriptor.status().device
    copier = VerifiedCopy { (count) throws(CopyError) in
      if interruption.isWanted { throw .interrupted }
      report.copied(count)
    }
  }

  /// Restores everything in a directory.
  func restore(from source: SharedDescriptor) throws(Stop) {
    try attempt(nil) { () throws(CopyError) in
      let place = Place(source: source, target: target, path: [])
      let metadata = try fromSource { () throws(Errno) in try FileMetadata(of: source, .user) }
      try contents(of: place)
      try finish(place, metadata)
    }
  }

  // MARK: Directories

  /// Restores what is in a directory.
  private func contents(of place: Place) throws(CopyError) {
    let names = try fromSource { () throws(Errno) in
      try DirectoryNames(place.source.descriptor.openQuietly(".", [.directory])).all(limit: .max)
    }
    if !options.isDryRun, let target = place.target { removeLeftovers(in: target, names) }
    for name in names.sorted(by: { $0.bytes.lexicographicallyPrecedes($1.bytes) }) {
      // What a killed run into the source has left there.
      guard !TemporaryName.isOne(name) else { continue }
      do throws(Stop) {
        try attempt(place.path + [name]) { () throws(CopyError) in try restore(name, in: place) }
      } catch {
        stop = error
        throw .interrupted
      }
    }
    guard !options.isDryRun, let target = place.target else { return }
    // Not every file system has it for directories.
    try? target.descriptor.openQuietly(".", [.directory]).synchronize()
  }

  /// What ended the run, on its way up.
  private var stop: Stop?

  private func removeLeftovers(in target: SharedDescriptor, _ names: [PathName]) {
    let there = (try? DirectoryNames(target.descriptor.openQuietly(".", [.directory])).all(limit: .max)) ?? []
    for name in there where TemporaryName.isOne(name) && !names.contains(name) {
      // One that is in use stays.
      try? TemporaryEntry.removeLeftover(name, in: target)
    }
  }

  /// Gives a directory, whose contents are whole, what it could not have before.
  private func finish(_ place: Place, _ metadata: FileMetadata) throws(CopyError) {
    guard !options.isDryRun, let target = place.target else { return }
    try onTarget { () throws(Errno) in
      let wanted = metadata.status.permissions
      // Made by this run or one that was killed: for the owner to write to, until now.
      if try target.descriptor.status().permissions == wanted | 0o700, wanted != wanted | 0o700 {
        try target.descriptor.setModeThroughPath(wanted)
      }
      try metadata.applyTimes(to: target)
    }
  }

  /// Restores a directory, and what is in it.
  func directory(_ name: PathName, in place: Place, _ metadata: FileMetadata, _ there: Status?) throws(CopyError) {
    let path = place.path + [name]
    let source = try fromSource { () throws(Errno) in
      SharedDescriptor(try place.source.descriptor.open(name, [.path, .directory, .noFollow]))
    }
    if let there {
      guard there.type == .directory else { return report.differs(Self.text(path)) }
    } else {
      if !options.isDryRun { try makeDirectory(name, in: place, metadata) }
      report.did(.directory, Self.text(path))
    }
    var target: SharedDescriptor?
    if there != nil || !options.isDryRun, let parent = place.target {
      target = try onTarget { () throws(Errno) in
        SharedDescriptor(try parent.descriptor.open(name, [.path, .directory, .noFollow]))
      }
    }
    let below = Place(source: source, target: target, path: path)
    try contents(of: below)
    try finish(below, metadata)
  }

  /// Makes a directory that has all of its metadata when it gets its name, but that the owner can write to it.
  private func makeDirectory(_ name: PathName, in place: Place, _ metadata: FileMetadata) throws(CopyError) {
    guard let parent = place.target else { return }
    let temporary = try TemporaryEntry(for: name, in: parent)
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
  func firstName(of status: Status) -> (inode: UInt64, path: [PathName])? {
    status.links > 1 ? linked[status.inode] : nil
  }

  /// Notes where a file was restored to.
  func note(_ status: Status, restoredAs inode: UInt64, _ path: [PathName]) {
    if status.links > 1, linked[status.inode] == nil { linked[status.inode] = (inode, path) }
  }

  /// Opens what was restored to a path, without access; no link on the way is followed.
  func restored(_ path: [PathName]) throws(Errno) -> SharedDescriptor {
    var current = target
    for name in path.dropLast() {
      current = SharedDescriptor(try current.descriptor.open(name, [.path, .directory, .noFollow]))
    }
    return SharedDescriptor(try current.descriptor.open(path.last!, [.path, .noFollow]))
  }

  // MARK: Failures

  /// Runs `body` for one path; what fails is told, and the run goes on where that is of use.
  private func attempt(_ path: [PathName]?, _ body: () throws(CopyError) -> Void) throws(Stop) {
    var failure: CopyError?
    do throws(CopyError) {
      if interruption.isWanted { throw .interrupted }
      try body()
    } catch {
      failure = error
    }
    if let stop { throw stop }
    guard let failure else { return }
    switch CopyOutcome(failure, path.map { Self.text($0) } ?? ".", on: mount) {
    case .failed(let failure): report.failed(failure)
    case .stop(let failure): throw Stop(failure: failure)
    }
  }

  static func text(_ path: [PathName]) -> String { path.map(\.description).joined(separator: "/") }

  func requireSourceDevice(_ status: Status) throws(CopyError) {
    // What is mounted below the source is not of the source.
    guard status.device == sourceDevice, status.is_mount_root == 0 else { throw .source(.improperLink) }
  }
}

func fromSource<Result>(_ body: () throws(Errno) -> Result) throws(CopyError) -> Result {
  do throws(Errno) { return try body() } catch { throw .source(error) }
}

func onTarget<Result>(_ body: () throws(Errno) -> Result) throws(CopyError) -> Result {
  do throws(Errno) { return try body() } catch { throw .target(error) }
}
