import Glibc
import LinuxIO
import SystemPackage

/// A file and its copy that change places, so that neither a write nor a change of metadata is lost.
///
/// Leases keep everybody from opening either of them meanwhile. Whoever was about to open the old one may have looked its
/// name up before: so it is kept aside, under its lease, until nobody can be under way to it any more. What was changed in
/// it without opening it, as by chmod(2), is carried over. If somebody wants to write to it, it gets its name back.
final class FileExchange {
  /// After how long nobody can be about to open what had the name before.
  static let settlingTime = Duration.milliseconds(250)

  /// What is replaced.
  let name: PathName
  /// Its contents, in bytes.
  let size: UInt64
  /// When the two have changed places.
  private(set) var began = ContinuousClock.now

  private let directory: SharedDescriptor
  private let old: SharedDescriptor
  private let oldInode: UInt64
  private let copyInode: UInt64
  /// The copy; under a lease until others may have it.
  private var copy: SharedDescriptor
  private var isCopyLeased = false
  /// What the old one is like, as far as the copy is like it; and what the copy was like then.
  private var before: FileState
  private var given: FileState
  /// The name of the one that has not the name.
  private var aside: PathName?

  /// - Parameters:
  ///   - old: the file, with a lease on it.
  ///   - before: its state when it was copied.
  ///   - copy: what nobody else has open.
  init(of old: SharedDescriptor, _ before: FileState, by copy: SharedDescriptor, _ temporary: TemporaryEntry)
    throws(CopyError)
  {
    let given: FileState
    do throws(Errno) { given = try FileState(of: copy) } catch { throw .target(error) }
    (directory, name, size) = (temporary.directory, temporary.finalName, before.metadata.status.size)
    (self.old, self.copy) = (old, copy)
    (oldInode, copyInode) = (before.metadata.status.inode, given.metadata.status.inode)
    (self.before, self.given) = (before, given)
  }

  /// Lets the two change places.
  ///
  /// - Throws: `changedMeanwhile`, `inUse`, `replacedMeanwhile`, `leftover`: nothing has happened. `writtenTwice`.
  func begin(_ temporary: TemporaryEntry) throws(CopyError) {
    do throws(Errno) { try copy.descriptor.takeWriteLease() } catch { throw .inUse }
    isCopyLeased = true
    let now = try onSource { () throws(Errno) in try FileState(of: old) }
    guard now.isSame(as: before) else { throw .changedMeanwhile }
    guard old.descriptor.lease == .exclusive else { throw .inUse }
    let aside = try temporary.keepAside()
    self.aside = aside
    do throws(CopyError) {
      try exchange(aside)
    } catch {
      try removeAside()
      throw error
    }
    began = .now
    guard try inode(of: aside) == oldInode else {
      if try directory.giveBack(name, from: aside, puttingAside: copyInode) { try removeAside() }
      throw .replacedMeanwhile
    }
    try settle()
    try onTarget { () throws(Errno) in
      // Whoever waits for the copy gets it now. No program could be executed while it is open for writing.
      try copy.descriptor.giveUpLease()
      isCopyLeased = false
      let path = PathName(descriptor: copy.descriptor)
      copy = SharedDescriptor(try Descriptor.open(path, [.readOnly, .nonBlocking]))
    }
  }

  /// Removes the old one, once the settling time is over.
  ///
  /// - Throws: `inUse`, when somebody wanted to write to the old one: it has its name again. `writtenTwice`.
  func finish() throws(CopyError) {
    // Nobody but the user can have removed it.
    guard let aside, let there = try? directory.descriptor.status(of: aside).inode, there == oldInode else { return }
    try settle()
    try removeAside()
  }

  // MARK: Steps

  /// Lets those in who read the old one, and carries over what was changed in it.
  private func settle() throws(CopyError) {
    switch old.descriptor.lease {
    case .none: return try goBack()
    case .shared: do throws(Errno) { try old.descriptor.shareLease() } catch { return try goBack() }
    case .exclusive: break
    }
    let now = try onSource { () throws(Errno) in try FileState(of: old) }
    guard now.metadata.status.links == 1 else { return try goBack() }
    guard !now.isSame(as: before) else { return }
    do throws(Errno) {
      try now.carryChanges(since: before, to: copy, thatHad: given)
      given = try FileState(of: copy)
      before = now
    } catch {
      try goBack()
    }
  }

  /// Gives the old one its name back; always throws.
  private func goBack() throws(CopyError) {
    guard let aside else { throw .inUse }
    // Who has opened the copy may write to it, and must keep it.
    guard isCopyLeased ? copy.descriptor.lease != .none : (try? copy.descriptor.takeWriteLease()) != nil,
      let now = try? FileState(of: copy), now.metadata.status.links == 1,
      (try? now.carryChanges(since: given, to: old, thatHad: before)) != nil
    else { throw .writtenTwice(aside) }
    try exchange(aside)
    guard try inode(of: aside) == copyInode else {
      // Somebody has replaced the copy meanwhile, and so the old one too.
      if try directory.giveBack(name, from: aside, puttingAside: oldInode) { try removeAside() }
      throw .replacedMeanwhile
    }
    guard copy.descriptor.lease != .none else { throw .writtenTwice(aside) }
    try removeAside()
    throw .inUse
  }

  private func exchange(_ aside: PathName) throws(CopyError) {
    do throws(Errno) {
      try directory.descriptor.rename(aside, to: name, in: directory.descriptor, flags: .exchange)
    } catch {
      throw error == .noSuchFileOrDirectory ? .replacedMeanwhile : .target(error)
    }
  }

  private func inode(of name: PathName) throws(CopyError) -> UInt64 {
    try onTarget { () throws(Errno) in try directory.descriptor.status(of: name).inode }
  }

  private func removeAside() throws(CopyError) {
    guard let aside else { return }
    try onTarget { () throws(Errno) in try directory.descriptor.unlink(aside) }
    self.aside = nil
  }

  private func onSource<Result>(_ body: () throws(Errno) -> Result) throws(CopyError) -> Result {
    do throws(Errno) { return try body() } catch { throw .source(error) }
  }

  private func onTarget<Result>(_ body: () throws(Errno) -> Result) throws(CopyError) -> Result {
    do throws(Errno) { return try body() } catch { throw .target(error) }
  }
}

extension FileExchange {
  /// Removes what a run that was killed has left aside of a file, if it is the same as the file.
  ///
  /// - Throws: `leftover` where it is not, `busy` when the run is not killed, but at work.
  static func removeLeftover(
    asideOf name: PathName, in directory: SharedDescriptor, _ file: SharedDescriptor, _ state: FileState,
    _ copier: VerifiedCopy
  ) throws(CopyError) {
    let aside = TemporaryName.old.of(name)
    do throws(Errno) {
      let left = SharedDescriptor(try directory.descriptor.openQuietly(aside, [.nonBlocking]))
      try left.descriptor.lock(isShared: false)
      guard try FileState(of: left).isSame(as: state) else { throw .fileExists }
    } catch {
      switch error {
      case .noSuchFileOrDirectory: return
      case .wouldBlock: throw .busy
      case .fileExists: throw .leftover(aside)
      default: throw .target(error)
      }
    }
    do throws(CopyError) {
      try copier.compare(with: file, state.metadata.status.size, aside, in: directory)
    } catch {
      guard case .different = error else { throw error }
      throw .leftover(aside)
    }
    do throws(Errno) { try directory.descriptor.unlink(aside) } catch { throw .target(error) }
  }
}
