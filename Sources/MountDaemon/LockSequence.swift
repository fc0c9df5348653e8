import DataProtectionCore
import FUSE
import FileSystem
import Glibc
import KeyManagement
import Logging
import SystemPackage

/// What a lock does to the classes that it takes away.
protocol Revocation {
  /// Takes classes away from everyone; see ``LockSequence/run(_:isEnding:)``.
  func run(_ classes: [ProtectionClass], isEnding: Bool)
  /// Drops the kernel's pages of one file.
  func invalidate(_ node: NodeID)
}

/// Takes classes away from everyone: open files, mappings, the kernel's page cache, and the daemon's own memory.
///
/// Runs on a thread of its own, and holds no lock that a request handler takes: the kernel answers an invalidation only
/// when the handlers have taken the dirty pages (libfuse, `fuse_lowlevel_notify_inval_inode`).
struct LockSequence: Revocation {
  let fileSystem: ProtectedFileSystem
  let session: Session
  let controller: LockController
  let log: Logger

  /// Revokes the classes. When this returns, no page of a class whose key went whole is with the kernel, no key of it is
  /// in memory, and every request on its contents is refused.
  ///
  /// Class B keeps its public key, and its open files their own keys, unless the daemon is ending.
  func run(_ classes: [ProtectionClass], isEnding: Bool) {
    let whole = isEnding ? classes : classes.filter { $0 != .completeUnlessOpen }
    // Where others write the store, what they have put into a class is found.
    let stale = fileSystem.renewRecords()

    // 1. Refuse open, read, resize and attributes. WRITE is still taken: it carries what programs wrote before.
    for fileClass in classes {
      controller.setAvailability(whole.contains(fileClass) ? .revoking : .publicOnly, of: fileClass)
    }
    let closed = Set(whole.flatMap { fileSystem.cachedNodes(in: $0, includingOpen: false) })
    // 2. The kernel writes the dirty pages back, drops all pages, mapped ones too, and forgets the attributes, so that
    //    the next write(2) asks first.
    for fileClass in classes { invalidate(fileClass, includingOpen: whole.contains(fileClass)) }
    for node in stale { invalidate(node) }
    finishWrites(to: whole)
    // 3. Refuse WRITE too; requests in flight end, then the keys of open files go, then the class key.
    for fileClass in whole { controller.setAvailability(.unavailable, of: fileClass) }
    for fileClass in whole { fileSystem.evictKeys(of: fileClass) }
    for fileClass in classes { controller.wipe(fileClass) }
    // 4. Drop what was read or dirtied between 2 and 3, or came into the class. A file that was closed at 1 got no pages
    //    then: the kernel releases a handle after the last read, write and mapping through it.
    for fileClass in whole {
      for node in fileSystem.cachedNodes(in: fileClass, includingOpen: true) where !closed.contains(node) {
        invalidate(node)
      }
      for node in fileSystem.openNodes(in: fileClass) where closed.contains(node) { invalidate(node) }
    }
  }

  /// A write(2) that had looked at the attributes before the kernel forgot them may have made its page dirty after the
  /// pages were written back. The kernel does not tell of such writes: they get time to finish, and what they left is
  /// fetched, while it is still accepted.
  private func finishWrites(to classes: [ProtectionClass]) {
    for _ in 0..<Self.passes {
      let nodes = classes.flatMap { fileSystem.writtenNodes(in: $0) }
      if nodes.isEmpty { return }
      usleep(4000)
      for node in nodes { invalidate(node) }
    }
  }

  private static let passes = 3

  /// Drops the kernel's pages of one file.
  func invalidate(_ node: NodeID) {
    do throws(Errno) {
      try session.invalidate(node)
    } catch {
      log.error("the kernel did not drop a file's pages", metadata: ["error": "\(error)"])
    }
  }

  private func invalidate(_ fileClass: ProtectionClass, includingOpen: Bool) {
    // Roughly in the order in which they came to be known, in which the kernel has them and their pages too.
    let nodes = fileSystem.cachedNodes(in: fileClass, includingOpen: includingOpen)
    for node in nodes.sorted(by: { $0.rawValue < $1.rawValue }) { invalidate(node) }
  }
}
