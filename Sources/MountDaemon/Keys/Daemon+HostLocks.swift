import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

// Locks of all hosts at once: one asks, each does it for itself and says so.
extension Daemon {
  package func lockHosts(_ content: HostLockRecord.Content, within time: Duration) throws(ControlError) -> [String] {
    // The own lock waits for nobody, and whatever becomes of it, the others are asked.
    let failure = lock(content) ?? (machine.state.lockOutcome.hasTakenAll ? nil : machine.state.lockOutcome.error)
    let silent: [String]
    do throws(KeyManagementError) { silent = try ask(content, within: time) } catch { throw failure ?? refusal(error) }
    guard let failure else { return silent }
    let names = silent.isEmpty ? "" : "; not known to be locked elsewhere: \(silent.joined(separator: ", "))"
    throw ControlError(failure.code, failure.message + names)
  }

  /// Asks the others. Returns the names of those who have not answered in time.
  private func ask(
    _ content: HostLockRecord.Content, within time: Duration
  ) throws(KeyManagementError) -> [String] {
    let locks = try hostLocks()
    let file = try openKeybagFile()
    let request = try locks.newRequest(content, by: deviceKey.host?.record.id)
    ownHostLock.store(request.request, ordering: .releasing)
    log.notice("all hosts are asked to lock")
    let deadline = MonotonicClock.now + time
    var silent = OthersOfStore(writes: !options.isReadOnly, host: deviceKey.host)
    while true {
      // Another may have asked meanwhile, for less, and not everyone has seen this request.
      let isThere = locks.request(beside: file)?.request == request.request
      if !isThere { try locks.make(request, beside: file) }
      // Whoever can put an earlier keybag in place does not take a host from the list.
      let keybags = [keybag.withLock { $0 }, try readKeybag(file)]
      for _ in 0..<20 {
        silent.look(in: keybags, mayWrite: WriterClaim.mayBeMade(in: backing)) {
          locks.isAcknowledged(request, by: $0, beside: file)
        }
        if silent.names.isEmpty || MonotonicClock.now >= deadline { return silent.names }
        MonotonicClock.sleep(microseconds: 100_000)
      }
    }
  }

  /// The last request when the mount began, which is none of its business.
  func lastHostLock(_ file: borrowing KeybagFile) -> LastHostLock {
    LastHostLock(request: (try? hostLocks().request(beside: file))?.request)
  }

  /// Does what another host asks for, if it has asked for anything new, and says so when that has taken all from
  /// memory: pages and keys that a store which does not answer has kept there, and a secret that is being tried.
  ///
  /// - Returns: whether nothing is left to do.
  func followHostLocks(_ file: borrowing KeybagFile, _ last: inout LastHostLock) -> Bool {
    let mark = HostLocks.Mark(beside: file)
    guard let mark, mark != last.mark || last.isUnanswered else { return true }
    guard let locks = try? hostLocks(), let request = locks.request(beside: file) else { return false }
    last.mark = mark
    if request.request == ownHostLock.load(ordering: .acquiring) {
      last.isUnanswered = false
    } else if request.request != last.request {
      last.request = request.request
      log.notice("another host asks all to lock", metadata: ["host": "\(request.host.hexadecimal)"])
      let failure = lock(request.content)
      last.isUnanswered = failure == nil || failure?.code == .writesLost
    }
    guard last.isUnanswered else { return true }
    let state = machine.state
    // It may have been unlocked since, and locked again for less.
    guard request.content.isDone(in: state.lockState) else {
      last.isUnanswered = false
      return true
    }
    guard state.lockOutcome.hasTakenAll, trial.load()?.waitForTrial() != false else {
      return false
    }
    do throws(KeyManagementError) {
      if let host = deviceKey.host { try locks.acknowledge(request, by: host.record.id, beside: file) }
      if !options.isReadOnly { try locks.acknowledge(request, by: nil, beside: file) }
      last.isUnanswered = false
      return true
    } catch {
      log.debug("the host that asks is not told yet that this one has locked", metadata: ["reason": "\(error.code)"])
      return false
    }
  }

  /// Locks this mount as a request asks for.
  private func lock(_ content: HostLockRecord.Content) -> ControlError? {
    do throws(ControlError) {
      if content == .lockEveryClass {
        try lockAll()
      } else {
        try lock(gracePeriod: .zero, includingInactive: content == .lockInactive, wait: true)
      }
      return nil
    } catch {
      return error
    }
  }

  private func hostLocks() throws(KeyManagementError) -> HostLocks {
    try HostLocks(of: keybag.withLock { $0.storeID }, deviceKey)
  }
}

extension HostLockRecord.Content {
  /// Whether a mount in that state has locked what a request asks for.
  fileprivate func isDone(in state: LockState) -> Bool {
    switch self {
    case .lock: state != .unlocked && state != .gracePeriod
    case .lockInactive: state == .inactive || state == .beforeFirstUnlock
    case .lockEveryClass: state == .beforeFirstUnlock
    case .locked: false
    }
  }
}

/// What a mount has seen of requests that all hosts lock.
struct LastHostLock: Sendable {
  /// The last one that was not its own; `nil`: there was none.
  fileprivate var request: UInt64?
  /// The file that was looked at last.
  fileprivate var mark: HostLocks.Mark?
  /// Whether the request was done, and is not answered yet.
  fileprivate var isUnanswered = false

  fileprivate init(request: UInt64?) { self.request = request }
}

/// Those who have not said that they locked: hosts, and whoever writes the store.
private struct OthersOfStore {
  private var silent: [[UInt8]: String] = [:]
  private var known: Set<[UInt8]> = []
  private let writes: Bool
  private var isWriterSilent = false

  /// - Parameters:
  ///   - writes: whether this machine writes the store.
  ///   - host: what it is as a host.
  init(writes: Bool, host: HostKey?) {
    self.writes = writes
    if let host { known.insert(host.record.id) }
  }

  var names: [String] { silent.values.sorted() + (isWriterSilent ? ["whoever writes the store"] : []) }

  /// - Parameter mayWrite: whether somebody may write the store now.
  mutating func look(in keybags: [Keybag], mayWrite: Bool, _ hasLocked: ([UInt8]?) -> Bool) {
    for protector in keybags.flatMap(\.protectors) where protector.method.host != nil {
      if known.insert(protector.id).inserted { silent[protector.id] = protector.label }
    }
    silent = silent.filter { !hasLocked($0.key) }
    isWriterSilent = !writes && mayWrite && !hasLocked(nil)
  }
}
