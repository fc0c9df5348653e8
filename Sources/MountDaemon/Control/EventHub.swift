import FUSE
import FileSystem
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy

/// Passes events on to those who subscribed, and writes them to the log.
final class EventHub: Sendable {
  private struct State {
    var refusals = 0
    /// Refusals that may still be logged in this second: one program in a loop must not fill the disk.
    var logBudget = 20
    var budgetEnds = MonotonicClock.now
  }

  private let state = RankedMutex(.refusals, State())
  let broadcast = EventBroadcast()
  private let log: Logger
  /// Refusals are logged with the path of what was refused; else with its inode number, which says nothing to who has
  /// the log and no access to the mount.
  private let logsPaths: Bool

  init(log: Logger, logsPaths: Bool) {
    self.log = log
    self.logsPaths = logsPaths
  }

  var refusals: Int { state.withLock { $0.refusals } }

  /// Delivers a refusal of a file with an inode number, on the mount. Subscribers must not block.
  func send(_ denial: AccessDenial, inode: UInt64) {
    broadcast.send(.accessDenied(denial))
    guard mayLogRefusal() else { return }
    var metadata: Logger.Metadata = [
      "code": "\(denial.code.rawValue)", "class": "\(denial.protectionClass.name)", "inode": "\(inode)",
      "pid": "\(denial.processID)",
    ]
    if logsPaths { metadata["path"] = "\(denial.path)" }
    log.info("access denied", metadata: metadata)
  }

  /// Delivers an event. Subscribers must not block.
  func send(_ event: DaemonEvent) {
    broadcast.send(event)
    switch event {
    case .willBecomeUnavailable(let classes, let seconds):
      log.notice("will become unavailable", metadata: ["classes": "\(names(classes))", "seconds": "\(seconds)"])
    case .didBecomeUnavailable(let classes):
      log.notice("did become unavailable", metadata: ["classes": "\(names(classes))"])
    case .didBecomeAvailable(let classes):
      log.notice("did become available", metadata: ["classes": "\(names(classes))"])
    case .accessDenied, .monitoringBegan, .eventsDropped:
      break
    }
  }

  private func names(_ classes: [ProtectionClass]) -> String {
    classes.map(\.name).joined(separator: " ")
  }

  private func mayLogRefusal() -> Bool {
    state.withLock { state in
      state.refusals += 1
      let now = MonotonicClock.now
      if now >= state.budgetEnds {
        state.logBudget = 20
        state.budgetEnds = now + .seconds(1)
      }
      state.logBudget -= 1
      return state.logBudget >= 0
    }
  }
}

/// Turns what the file system sees into events.
final class RefusalObserver: FileSystemObserver {
  private let events: EventHub
  private let machine: LockMachine

  init(events: EventHub, machine: LockMachine) {
    self.events = events
    self.machine = machine
  }

  func accessDenied(code: Int, fileClass: ProtectionClass, path: String, inode: UInt64, process: Int32) {
    guard let code = AccessDenial.Code(rawValue: code) else { return }
    events.send(
      AccessDenial(code: code, protectionClass: fileClass, path: path, processID: process), inode: inode)
  }

  func pagesAreStale(of node: NodeID) {
    machine.drop(node)
  }
}
