import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import TreeCopy

/// What a failed copy means for the rest of the run.
enum CopyOutcome {
  /// This one failed.
  case failed(CommandFailure)
  /// Nothing that follows would fare better.
  case stop(CommandFailure)

  /// - Parameters:
  ///   - path: what was to be copied.
  ///   - target: a path on the mount that is written.
  init(_ error: CopyError, _ path: String, on target: MountedFileSystem) {
    switch error {
    case .source(.keyRevoked):
      self = .failed(CommandFailure(.keyRevoked, "\(path.printable): its class key is no more in the source either"))
    case .target(.noKey):
      self = .failed(
        CommandFailure(
          .failure,
          "\(path.printable) is under a class key that the keybag does not have, and was left alone: another keybag "
            + "opens it; where there is none any more, remove it first"))
    case .source(let error): self = .failed(CommandFailure("\(path.printable) cannot be read", error))
    case .target(.noSpace), .target(.diskQuotaExceeded):
      self = .stop(CommandFailure(.failure, "there is no room left; run it again when there is, and it goes on"))
    case .target(.readOnlyFileSystem):
      self = .stop(CommandFailure(.failure, "\(target.mountPoint.printable) is read-only"))
    case .target(let error) where error.isOfAGoneDaemon:
      self = .stop(CommandFailure(.noAnswer, "\(target.mountPoint.printable): its daemon is gone"))
    case .target where !Self.isUnlocked(target, throughout: true),
      .different where !Self.isUnlocked(target, throughout: true):
      // What was written and not yet encrypted is lost with the keys, so that the copy may be different, too.
      self = .stop(
        CommandFailure(.locked, "\(target.mountPoint.printable) was locked; unlock it and run this again, it goes on"))
    case .target(let error): self = .failed(CommandFailure(path.printable, error))
    case .changedMeanwhile:
      self = .failed(CommandFailure(.failure, "\(path.printable) was changed while it was copied; run this again"))
    case .longerThanSaid:
      self = .failed(CommandFailure(.failure, "\(path.printable) has more contents than its length says"))
    case .replacedMeanwhile:
      self = .failed(
        CommandFailure(.failure, "\(path.printable): something else was put there meanwhile, and was left alone"))
    case .different:
      self = .failed(CommandFailure(.failure, "\(path.printable): what was read back is not what was written"))
    case .attributesTooLarge:
      self = .failed(
        CommandFailure(.failure, "\(path.printable): there is no room for its extended attributes on the backing store")
      )
    case .busy: self = .failed(CommandFailure(.busy, "\(path.printable): another run is copying it"))
    case .interrupted: self = .stop(CommandFailure(.interrupted, "interrupted; run again, it goes on"))
    }
  }

  /// What a copy does not have, in a sentence.
  static func sentence(_ omission: Omission, _ path: String) -> String {
    let path = path.printable
    switch omission {
    case .name(let name):
      return "\(path) has '\(name.description.printable)' in the backing directory, whose name is damaged or not this "
        + "store's; it was left out"
    case .attribute(let name, let error):
      let name = name.description.printable
      return error == .notPermitted && !name.hasPrefix("user.")
        ? "\(path): only root restores its extended attribute \(name); it was left out"
        : "\(path): its extended attribute \(name) was left out: \(error)"
    case .owner: return "\(path): only root restores its owner and group; they were left out"
    case .protectionClass:
      return "\(path) was there, in a class that protects less than in the source; 'protectfs class set' changes that"
    case .unfinishedCopy: return "\(path) is what an interrupted restore has left there; it was left out"
    }
  }

  /// Whether a mount is unlocked, as far as its daemon tells this user; `throughout`: and no lock is on its way.
  static func isUnlocked(_ mount: MountedFileSystem, throughout: Bool = false) -> Bool {
    guard var daemon = try? DaemonConnection(to: mount), let state = try? daemon.status().state else { return true }
    return state == .unlocked || (state == .gracePeriod && !throughout)
  }
}
