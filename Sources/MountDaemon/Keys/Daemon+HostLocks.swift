import KeyManagement
import ProtectfsClient
import ProtectfsIO
import StoreFormat
import SystemPackage

// Locks of all hosts at once: one asks, each does it for itself and says so.
extension Daemon {
  package func lockHosts(_ content: HostLockRecord.Content, within time: Duration) throws(ControlError) -> [String] {
    // The own lock waits for nobody, and whatever becomes of it, the others are asked.
    let failure = lock(content)
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
      for _ in 0..<20 {
        // Whoever can put an earlier keybag in place does not take a host from the list.
        try silent.add(from: [keybag.withLock { $0 }, readKeybag(file)], mayWrite: WriterClaim.mayBeMade(in: backing))
        silent.remove { locks.isAcknowledged(request, by: $0, beside: file) }
        if silent.names.isEmpty || MonotonicClock.now >= deadline { return silent.names }
        MonotonicClock.sleep(microseconds: 100_000)
      }
    }
  }

  /// The last request when the mount began, which is none of its business.
  func noteLastHostLock(_ file: borrowing KeybagFile) {
    if let last = try? hostLocks().request(beside: file) { lastHostLock.store(last.request, ordering: .releasing) }
  }

  /// Does what another host asks for, if it has asked for anything new, and says so when that has taken effect. Pages
  /// and keys that a store which does not answer has kept in memory are not.
  ///
  /// - Parameter seen: what was looked at last.
  /// - Returns: whether there is none that could not be read.
  func followHostLocks(_ file: borrowing KeybagFile, _ seen: inout HostLocks.Mark?) -> Bool {
    guard let mark = HostLocks.Mark(beside: file), mark != seen else { return true }
    guard let locks = try? hostLocks(), let request = locks.request(beside: file) else { return false }
    seen = mark
    guard request.request != ownHostLock.load(ordering: .acquiring),
      request.request != lastHostLock.exchange(request.request, ordering: .acquiringAndReleasing)
    else { return true }
    log.notice("another host asks all to lock", metadata: ["host": "\(request.host.hexadecimal)"])
    let failure = lock(request.content)
    trial.load()?.waitForTrial(atMost: DerivationLock.patience)
    let outcome = machine.state.lockOutcome
    guard failure == nil || failure?.code == .writesLost, outcome.hasTakenAll else {
      log.warning("a lock that another host has asked for has not taken all from memory")
      return true
    }
    do throws(KeyManagementError) {
      if let host = deviceKey.host { try locks.acknowledge(request, by: host.record.id, beside: file) }
      if !options.isReadOnly { try locks.acknowledge(request, by: nil, beside: file) }
    } catch {
      log.warning("the host that asks is not told that this one has locked", metadata: ["reason": "\(error.code)"])
    }
    return true
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

/// Those who have not said that they locked: hosts, and whoever writes the store.
private struct OthersOfStore {
  private var silent: [[UInt8]?: String] = [:]
  private var known: Set<[UInt8]?> = []

  /// - Parameters:
  ///   - writes: whether this machine writes the store.
  ///   - host: what it is as a host.
  init(writes: Bool, host: HostKey?) {
    if writes { known.insert(nil) }
    if let host { known.insert(host.record.id) }
  }

  var names: [String] { silent.values.sorted() }

  mutating func add(from keybags: [Keybag], mayWrite: Bool) {
    for protector in keybags.flatMap(\.protectors) where protector.method.host != nil {
      add(protector.id, protector.label)
    }
    if mayWrite { add(nil, "whoever writes the store") }
  }

  private mutating func add(_ id: [UInt8]?, _ name: String) {
    if known.insert(id).inserted { silent[id] = name }
  }

  mutating func remove(where hasLocked: ([UInt8]?) -> Bool) { silent = silent.filter { !hasLocked($0.key) } }
}
