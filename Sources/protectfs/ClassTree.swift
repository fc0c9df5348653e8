import DataProtectionCore
import Glibc
import LinuxIO
import Synchronization
import SystemPackage

/// Everything below a directory, without following symbolic links or leaving the mount.
final class ClassTree: Sendable {
  /// What is done with each file and directory: one path by which it is reached as it was found, one to show.
  typealias Body = @Sendable (PathName, String) throws(Errno) -> Void

  private let failures: FailureCount
  private let body: Body
  /// How many threads may still come to help with a directory of many entries.
  private let helpers: Atomic<Int>

  private init(_ failures: FailureCount, threads: Int, _ body: @escaping Body) {
    self.failures = failures
    self.body = body
    helpers = Atomic(threads - 1)
  }

  /// Calls `body` with each file and directory below a path, in some order if on several threads. What fails is counted,
  /// and the rest still visited.
  static func visit(_ path: String, _ failures: FailureCount, threads: Int = 1, _ body: @escaping Body) {
    failures.attempt(path) { () throws(Errno) in
      let root = try Descriptor.open(PathName(path), [.path])
      guard try root.status().type == .directory else { return }
    }
    guard let root = try? Descriptor.open(PathName(path), [.readOnly, .directory, .noFollow]),
      let device = try? root.status().device
    else { return }
    ClassTree(failures, threads: threads, body).visit(SharedDescriptor(root), path, device)
  }

  private func visit(_ directory: SharedDescriptor, _ path: String, _ device: UInt64) {
    var names: [PathName] = []
    failures.attempt(path) { () throws(Errno) in
      names = try DirectoryNames(try directory.descriptor.open(".", [.readOnly, .directory])).all(limit: .max)
    }
    visit(names[...], in: directory, path, device)
  }

  /// From so many entries on it pays to start a thread for half of them.
  private static let many = 64

  private func visit(_ names: ArraySlice<PathName>, in directory: SharedDescriptor, _ path: String, _ device: UInt64) {
    guard names.count >= Self.many, helpers.wrappingSubtract(1, ordering: .relaxed).newValue >= 0 else {
      if names.count >= Self.many { helpers.wrappingAdd(1, ordering: .relaxed) }
      for name in names { visit(name, in: directory, path, device) }
      return
    }
    let middle = names.startIndex + names.count / 2
    let rest = names[middle...]
    let helper = Thread(name: "class") { [self] in
      visit(rest, in: directory, path, device)
    }
    visit(names[..<middle], in: directory, path, device)
    helper.join()
    helpers.wrappingAdd(1, ordering: .relaxed)
  }

  private func visit(_ name: PathName, in directory: SharedDescriptor, _ path: String, _ device: UInt64) {
    let itemPath = "\(path)/\(name)"
    do throws(Errno) {
      // Opened without access: this needs no key, and what is changed is what was looked at.
      let item = try directory.descriptor.open(name, [.path, .noFollow])
      let status = try item.status()
      guard status.device == device, status.type == .regular || status.type == .directory else { return }
      failures.attempt(itemPath) { () throws(Errno) in try body(PathName(descriptor: item), itemPath) }
      guard status.type == .directory else { return }
      visit(
        SharedDescriptor(try directory.descriptor.open(name, [.readOnly, .directory, .noFollow])), itemPath, device)
    } catch {
      failures.attempt(itemPath) { () throws(Errno) in throw error }
    }
  }
}

/// Counts what failed of many, and says each time why.
final class FailureCount: Sendable {
  private struct Counts {
    var total = 0
    var failed = 0
    var onlyStatus: ExitStatus?
  }

  private let counts = Mutex(Counts())

  /// How many were tried.
  var total: Int { counts.withLock { $0.total } }

  /// Runs `body` for one path, and reports what it throws.
  func attempt(_ path: String, _ body: () throws(Errno) -> Void) {
    var failure: CommandFailure?
    do throws(Errno) {
      try body()
    } catch {
      failure = Self.failure(path, error)
    }
    count(failure)
  }

  /// Counts one that was tried, and reports why it failed if it did.
  func count(_ failure: CommandFailure?) {
    counts.withLock { counts in
      counts.total += 1
      guard let failure else { return }
      counts.failed += 1
      counts.onlyStatus = counts.failed == 1 ? failure.status : nil
      CommandFailure.report(failure.message)
    }
  }

  /// - Throws: when something failed; where that is one thing of one, its own status.
  func finish(of verb: String) throws(CommandFailure) {
    let counts = counts.withLock { $0 }
    guard counts.failed > 0 else { return }
    guard counts.total > 1 || counts.onlyStatus == nil else {
      throw CommandFailure(counts.onlyStatus ?? .failure, "nothing was \(verb)")
    }
    throw CommandFailure(.partial, "\(counts.failed) of \(counts.total) could not be \(verb)")
  }

  private static func failure(_ path: String, _ error: Errno) -> CommandFailure {
    switch error {
    case .notSupported, .notSupportedOnSocket:
      return CommandFailure(.notMounted, "\(path.printable) is not on a protectfs mount")
    case Errno(rawValue: EKEYREVOKED):
      return CommandFailure(
        .keyRevoked, "\(path.printable): its class key was erased, reset or rotated away; nothing opens it any more")
    case .permissionDenied:
      if let mount = try? MountedFileSystem.containing(path), let status = try? PathStatus(path: path, on: mount),
        status.obstacle == .classLocked
      {
        return CommandFailure(
          .locked, "\(path.printable) is locked: its class is \(status.protectionClass.name); unlock the mount first")
      }
      return CommandFailure(
        .notPermitted, "\(path.printable): \(error); its permissions or a class that is locked now do not allow it")
    default:
      return CommandFailure(path.printable, error)
    }
  }
}
