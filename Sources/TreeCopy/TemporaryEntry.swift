import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The name under which something is kept that is being written, beside the name that is its own in the end.
enum TemporaryName {
  private static let longest = 255
  private static let suffix = Array(".protectfs-new".utf8)

  /// The temporary name for a name: always the same, so that what a killed run has left is found again.
  static func of(_ name: PathName) -> PathName {
    let whole = [UInt8(ascii: ".")] + name.bytes + suffix
    guard whole.count > longest else { return PathName(bytes: whole) }
    let mark = [UInt8(ascii: "~")] + NameHash.digits(of: name.bytes).utf8 + suffix
    return PathName(bytes: whole.prefix(longest - mark.count) + mark)
  }

  /// Whether a name is of that kind.
  static func isOne(_ name: PathName) -> Bool {
    name.bytes.first == UInt8(ascii: ".") && name.bytes.count > suffix.count + 1
      && name.bytes.suffix(suffix.count).elementsEqual(suffix)
  }
}

/// Something under a temporary name, until it gets its own. Gone with this value if it does not.
final class TemporaryEntry {
  let directory: SharedDescriptor
  let name: PathName
  let finalName: PathName
  /// Whether what has the temporary name is no longer, or not yet, this one's to remove.
  private var isGone = true

  init(for name: PathName, in directory: SharedDescriptor) {
    self.directory = directory
    self.name = TemporaryName.of(name)
    finalName = name
  }

  deinit {
    guard !isGone else { return }
    if (try? directory.descriptor.unlink(name)) == nil { try? directory.descriptor.removeDirectory(name) }
  }

  /// Makes what has the temporary name; what a killed run has left there is removed.
  func make<Result: ~Copyable>(
    _ body: (borrowing Descriptor, PathName) throws(Errno) -> Result
  ) throws(CopyError) -> Result {
    do throws(Errno) {
      let made = try body(directory.descriptor, name)
      isGone = false
      return made
    } catch {
      guard error == .fileExists else { throw .target(error) }
    }
    try Self.removeLeftover(name, in: directory)
    do throws(Errno) {
      let made = try body(directory.descriptor, name)
      isGone = false
      return made
    } catch {
      throw error == .fileExists ? .busy : .target(error)
    }
  }

  /// Makes an empty file, for this user alone; returns it, and its inode number. It is locked, so that another run does
  /// not take it for a leftover.
  func makeFile() throws(CopyError) -> (SharedDescriptor, inode: UInt64) {
    let file = SharedDescriptor(
      try make { (directory, name) throws(Errno) in
        try directory.open(name, [.readWrite, .create, .exclusive, .noFollow], mode: 0o600)
      })
    // Until it is locked, another run may take it for a leftover.
    isGone = true
    let (own, found): (UInt64, UInt64)
    do throws(Errno) {
      try file.descriptor.lock(isShared: false)
      own = try file.descriptor.status().inode
      found = try directory.descriptor.status(of: name).inode
    } catch {
      throw error == .wouldBlock || error == .noSuchFileOrDirectory ? .busy : .target(error)
    }
    guard own == found else { throw .busy }
    isGone = false
    return (file, own)
  }

  /// Gives it its name, in one step. Where something has the name, that must be the file of an inode number; it is
  /// removed.
  ///
  /// The two change places first: so nothing is lost that came to have the name at the last moment.
  func takeName(replacing inode: UInt64?) throws(CopyError) {
    guard let inode else {
      try rename(.noReplace)
      isGone = true
      return
    }
    let own = try onTarget { () throws(Errno) in try directory.descriptor.status(of: name).inode }
    isGone = true
    do throws(CopyError) {
      try rename(.exchange)
    } catch {
      isGone = false
      throw error
    }
    let found = try onTarget { () throws(Errno) in try directory.descriptor.status(of: name).inode }
    guard found == inode else {
      isGone = try !directory.giveBack(finalName, from: name, puttingAside: own)
      throw .replacedMeanwhile
    }
    try onTarget { () throws(Errno) in try directory.descriptor.unlink(name) }
  }

  private func rename(_ flags: RenameFlags) throws(CopyError) {
    do throws(Errno) {
      try directory.descriptor.rename(name, to: finalName, in: directory.descriptor, flags: flags)
    } catch {
      throw error == .fileExists || error == .noSuchFileOrDirectory ? .replacedMeanwhile : .target(error)
    }
  }

  /// Removes what a killed run has left under a temporary name.
  ///
  /// - Throws: `busy` when the run is not killed, but at work.
  static func removeLeftover(_ name: PathName, in directory: SharedDescriptor) throws(CopyError) {
    do throws(Errno) {
      switch try directory.descriptor.status(of: name).type {
      case .directory: return try directory.descriptor.removeDirectory(name)
      case .regular:
        if let file = try? directory.descriptor.open(name, [.readOnly, .nonBlocking, .noFollow]) {
          try file.lock(isShared: false)
        }
      default: break
      }
      try directory.descriptor.unlink(name)
    } catch {
      guard error != .noSuchFileOrDirectory else { return }
      throw error == .wouldBlock ? .busy : .target(error)
    }
  }
}

extension SharedDescriptor {
  /// Gives a name back to a file that somebody else had put there, and that has come to a temporary name by an
  /// exchange.
  ///
  /// Whatever others put there meanwhile is newer still, and gets the name.
  /// - Parameter put: the inode number of what this process has put under the name.
  /// - Returns: whether something is left under the temporary name: what was put there, or what others have replaced.
  func giveBack(_ name: PathName, from temporary: PathName, puttingAside put: UInt64) throws(CopyError) -> Bool {
    var put = put
    do throws(Errno) {
      while true {
        let foreign = try descriptor.status(of: temporary).inode
        do throws(Errno) {
          try descriptor.rename(temporary, to: name, in: descriptor, flags: .exchange)
        } catch .noSuchFileOrDirectory {
          // Nothing has the name any more.
          do throws(Errno) {
            try descriptor.rename(temporary, to: name, in: descriptor, flags: .noReplace)
            return false
          } catch .fileExists {
            continue
          }
        }
        guard try descriptor.status(of: temporary).inode != put else { return true }
        put = foreign
      }
    } catch {
      throw .target(error)
    }
  }
}
