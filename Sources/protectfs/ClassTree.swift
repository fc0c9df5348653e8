import DataProtection
import LinuxIO
import SystemPackage

/// Everything below a directory, without following symbolic links or leaving the mount.
enum ClassTree {
  /// Calls `body` with each file and directory below a path: one path by which it is reached as it was found, one to
  /// show. What fails is counted, and the rest still visited.
  static func visit(
    _ path: String, _ failures: FailureCount, _ body: (PathName, String) throws(Errno) -> Void
  ) {
    failures.attempt(path) { () throws(Errno) in
      let root = try Descriptor.open(PathName(path), [.path])
      guard try root.status().type == .directory else { return }
    }
    guard let root = try? Descriptor.open(PathName(path), [.readOnly, .directory, .noFollow]),
      let device = try? root.status().device
    else { return }
    visit(root, path, device, failures, body)
  }

  private static func visit(
    _ directory: borrowing Descriptor, _ path: String, _ device: UInt64, _ failures: FailureCount,
    _ body: (PathName, String) throws(Errno) -> Void
  ) {
    var names: [PathName] = []
    failures.attempt(path) { () throws(Errno) in
      names = try DirectoryNames(try directory.open(".", [.readOnly, .directory])).all(limit: .max)
    }
    for name in names {
      let itemPath = "\(path)/\(name)"
      do throws(Errno) {
        // Opened without access: this needs no key, and what is changed is what was looked at.
        let item = try directory.open(name, [.path, .noFollow])
        let status = try item.status()
        guard status.device == device, status.type == .regular || status.type == .directory else { continue }
        failures.attempt(itemPath) { () throws(Errno) in try body(PathName(descriptor: item), itemPath) }
        guard status.type == .directory else { continue }
        let below = try directory.open(name, [.readOnly, .directory, .noFollow])
        visit(below, itemPath, device, failures, body)
      } catch {
        failures.attempt(itemPath) { () throws(Errno) in throw error }
      }
    }
  }
}

/// Counts what failed of many, and says each time why.
final class FailureCount {
  private(set) var total = 0
  private var failed = 0
  private var onlyStatus: ExitStatus?

  /// Runs `body` for one path, and reports what it throws.
  func attempt(_ path: String, _ body: () throws(Errno) -> Void) {
    total += 1
    do throws(Errno) {
      try body()
    } catch {
      failed += 1
      let failure = Self.failure(path, error)
      onlyStatus = failed == 1 ? failure.status : nil
      CommandFailure.report(failure.message)
    }
  }

  /// - Throws: when something failed; where that is one thing of one, its own status.
  func finish(of verb: String) throws(CommandFailure) {
    guard failed > 0 else { return }
    guard total > 1 || onlyStatus == nil else { throw CommandFailure(onlyStatus ?? .failure, "nothing was \(verb)") }
    throw CommandFailure(.partial, "\(failed) of \(total) could not be \(verb)")
  }

  private static func failure(_ path: String, _ error: Errno) -> CommandFailure {
    switch error {
    case .notSupported, .notSupportedOnSocket:
      return CommandFailure(.notMounted, "\(path.printable) is not on a protectfs mount")
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
