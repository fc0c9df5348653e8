import DataProtectionCore
import Glibc
import LinuxIO
import SystemPackage

/// Gives files new keys by copying each and putting the copy in its place.
///
/// A file that anybody has open is not touched: a write lease, held from before it is copied until nobody can be about to
/// open it any more, sees to that (``FileExchange``).
final class DataRotation {
  /// What was done.
  struct Summary: Encodable {
    var rotated = 0
    var failed = 0
    var bytes: UInt64 = 0
  }

  private(set) var summary = Summary()
  private let interruption: Interruption
  private let progress = ProgressLine()
  private lazy var copier = VerifiedCopy { [unowned self] (count) throws(CopyError) in try step(count) }
  /// What is being copied, under a lease.
  private var current: SharedDescriptor?
  /// Files that have changed places with their copies, and are kept for a moment, in the order of time.
  private var settling: [(exchange: FileExchange, path: PathName, mount: MountedFileSystem)] = []
  private static let mostSettling = 256

  init(_ interruption: Interruption) {
    self.interruption = interruption
  }

  /// Does it with a file, or with everything in and below a directory.
  ///
  /// - Throws: when nothing more can be done.
  func rotate(_ path: String) throws {
    guard let mount = try MountedFileSystem.containing(path) else {
      throw CommandFailure(.notMounted, "\(path.printable) is not on a protectfs mount")
    }
    let path = try CanonicalPath.ofLink(path)
    let (parent, name) = PathName(path).parted
    try attempt(PathName(path), mount) { (stop) throws(CopyError) in
      let directory = try fromSource { () throws(Errno) in
        SharedDescriptor(try Descriptor.open(parent, [.path, .directory]))
      }
      let status = try fromSource { () throws(Errno) in try directory.descriptor.status(of: name) }
      switch status.type {
      case .directory: try visit(name, in: directory, PathName(path), status, mount, &stop)
      case .regular: try rotate(name, in: directory, PathName(path), mount)
      default: throw .source(.invalidArgument)
      }
    }
  }

  /// Removes what still is kept, and ends the line of the terminal.
  ///
  /// - Throws: when something could not be done, and nothing more can.
  func finish() throws(CommandFailure) {
    defer { progress.clear() }
    try settle(atMost: 0)
  }

  // MARK: Directories

  private func visit(
    _ name: PathName, in parent: SharedDescriptor, _ path: PathName, _ own: Status, _ mount: MountedFileSystem,
    _ stop: inout CommandFailure?
  ) throws(CopyError) {
    let directory = try fromSource { () throws(Errno) in
      SharedDescriptor(try parent.descriptor.openQuietly(name, [.directory]))
    }
    let names = try fromSource { () throws(Errno) in
      try DirectoryNames(directory.descriptor.openQuietly(".", [.directory])).all(limit: .max)
    }
    // Of those that this or a killed run keeps aside: they are seen to with what has the name.
    let kept = Set(names.map { TemporaryName.old.of($0) })
    for name in names {
      let path = path.appending(name)
      do throws(CommandFailure) {
        try attempt(path, mount) { (stop) throws(CopyError) in
          if TemporaryName.new.isOne(name) { return try TemporaryEntry.removeLeftover(name, in: directory) }
          if kept.contains(name) { return }
          let status: Status
          do throws(Errno) { status = try directory.descriptor.status(of: name) } catch {
            // Removed meanwhile.
            if error == .noSuchFileOrDirectory { return }
            throw .source(error)
          }
          guard status.device == own.device, status.is_mount_root == 0 else { return }
          switch status.type {
          case .directory: try visit(name, in: directory, path, status, mount, &stop)
          case .regular: try rotate(name, in: directory, path, mount)
          default: break
          }
        }
      } catch {
        stop = error
        return
      }
    }
    // Not every file system has it for directories.
    try? directory.descriptor.synchronize()
  }

  /// Runs `body` for one path; what fails is told, and the rest goes on where that is of use.
  private func attempt(
    _ path: PathName, _ mount: MountedFileSystem, _ body: (inout CommandFailure?) throws(CopyError) -> Void
  ) throws(CommandFailure) {
    var stop: CommandFailure?
    var failure: CopyError?
    do throws(CopyError) {
      if interruption.isWanted { throw .interrupted }
      try body(&stop)
    } catch {
      failure = error
    }
    current = nil
    if let stop { throw stop }
    if let failure { try report(failure, path, mount) }
    try settle(atMost: Self.mostSettling)
  }

  private func report(
    _ failure: CopyError, _ path: PathName, _ mount: MountedFileSystem
  ) throws(CommandFailure) {
    let failed: CommandFailure
    switch CopyOutcome(failure, path.description, on: mount) {
    case .stop(let failure): throw failure
    case .failed(let failure): failed = failure
    }
    summary.failed += 1
    progress.clear()
    CommandFailure.report(failed.message)
  }

  // MARK: Files

  private func rotate(
    _ name: PathName, in directory: SharedDescriptor, _ path: PathName, _ mount: MountedFileSystem
  ) throws(CopyError) {
    let exchange: FileExchange
    do throws(CopyError) {
      exchange = try rotateOnce(name, in: directory)
    } catch {
      // Times of a file just closed may still have been on their way.
      guard case .changedMeanwhile = error else { throw error }
      exchange = try rotateOnce(name, in: directory)
    }
    settling.append((exchange, path, mount))
  }

  private func rotateOnce(_ name: PathName, in directory: SharedDescriptor) throws(CopyError) -> FileExchange {
    current = nil
    let file = try fromSource { () throws(Errno) in
      SharedDescriptor(try directory.descriptor.openQuietly(name, [.nonBlocking]))
    }
    try takeLease(file)
    current = file
    let state = try fromSource { () throws(Errno) in
      // Another run is to know it when it is kept aside.
      try file.descriptor.lock(isShared: false)
      return try FileState(of: file)
    }
    let status = state.metadata.status
    guard status.type == .regular else { throw .changedMeanwhile }
    guard status.links == 1 else { throw .severalNames }
    try FileExchange.removeLeftover(asideOf: name, in: directory, file, state, copier)
    let (copy, temporary) = try copier.copy(file, state.metadata, asideOf: name, in: directory, state.fileClass)
    let exchange = try FileExchange(of: file, state, by: copy, temporary)
    try exchange.begin(temporary)
    return exchange
  }

  /// Ends the exchanges whose time is over, and waits for it until no more are left than may be.
  private func settle(atMost count: Int) throws(CommandFailure) {
    while let first = settling.first {
      let rest = first.exchange.began + FileExchange.settlingTime - .now
      if rest > .zero {
        guard settling.count > count else { return }
        usleep(UInt32(rest / .microseconds(1)) + 1)
      }
      settling.removeFirst()
      do throws(CopyError) {
        try first.exchange.finish()
        summary.rotated += 1
        summary.bytes += first.exchange.size
      } catch {
        try report(error, first.path, first.mount)
      }
    }
  }

  private func takeLease(_ file: SharedDescriptor) throws(CopyError) {
    do throws(Errno) {
      try file.descriptor.takeWriteLease()
    } catch {
      switch error {
      case .resourceTemporarilyUnavailable: throw .inUse
      case .invalidArgument, .notSupported, .noFunction: throw .noLeases
      default: throw .source(error)
      }
    }
  }

  private func step(_ count: Int) throws(CopyError) {
    if interruption.isWanted { throw .interrupted }
    // Whoever wants to open the file comes first: the copy is begun anew another time.
    guard current?.descriptor.holdsWriteLease ?? false else { throw .inUse }
    progress.show("\(summary.rotated.files), \(summary.bytes.bytes)")
  }
}
