import KeyManagement
import ProtectfsClient
import ProtectfsIO
import StoreFormat
import SystemPackage

// Locks of all hosts at once: one asks, each does it for itself and says so.
extension Daemon {
  package func lockHosts(_ content: HostLockRecord.Content, within time: Duration) throws(ControlError) -> [String] {
    // The own lock waits for nobody.
    let lostWrites = try lock(content)
    let silent: [String]
    do throws(KeyManagementError) {
      let locks = try hostLocks()
      let file = try openKeybagFile()
      let request = try locks.newRequest(content, by: deviceKey.host?.record.id)
      // It may be unlocked again before this mount sees its own request.
      lastHostLock.store(request.request, ordering: .releasing)
      try locks.make(request, beside: file)
      acknowledge(request, locks, file)
      log.notice("all hosts are asked to lock")
      let deadline = MonotonicClock.now + time
      silent = try wait(for: request, locks, file, until: deadline)
    } catch {
      throw refusal(error)
    }
    if let lostWrites { throw lostWrites }
    return silent
  }

  /// Waits until all have said that they locked, for a request, or for one that has come after it and asks for as much.
  /// Returns the names of those who have not.
  private func wait(
    for own: HostLockRecord, _ locks: HostLocks, _ file: borrowing KeybagFile, until deadline: ContinuousClock.Instant
  ) throws(KeyManagementError) -> [String] {
    while true {
      let last = locks.request(beside: file)
      let requests = [own] + (last.map { $0.content.rawValue >= own.content.rawValue ? [$0] : [] } ?? [])
      func isSilent(_ host: [UInt8]?) -> Bool {
        !requests.contains { locks.isAcknowledged($0, by: host, beside: file) }
      }
      let hosts = try readKeybag(file).protectors.filter { $0.method.host != nil }
      var silent = hosts.filter { isSilent($0.id) }.map(\.label)
      if WriterClaim.isMade(in: backing), isSilent(nil) { silent.append("whoever writes the store") }
      if silent.isEmpty || MonotonicClock.now >= deadline { return silent }
      MonotonicClock.sleep(microseconds: 100_000)
    }
  }

  /// The last request when the mount began, which is none of its business.
  func noteLastHostLock(_ file: borrowing KeybagFile) {
    if let last = try? hostLocks().request(beside: file) { lastHostLock.store(last.request, ordering: .releasing) }
  }

  /// Does what another host asks for, if it has asked for anything new, and says so when that has taken effect.
  ///
  /// - Parameter seen: what was looked at last.
  func followHostLocks(_ file: borrowing KeybagFile, _ seen: inout HostLocks.Mark?) {
    guard let mark = HostLocks.Mark(beside: file), mark != seen, let locks = try? hostLocks(),
      let request = locks.request(beside: file)
    else { return }
    seen = mark
    guard request.request != lastHostLock.exchange(request.request, ordering: .acquiringAndReleasing) else { return }
    log.notice("another host asks all to lock", metadata: ["host": "\(request.host.hexadecimal)"])
    do throws(ControlError) { _ = try lock(request.content) } catch { return }
    acknowledge(request, locks, file)
  }

  /// Locks this mount as a request asks for. Returns an error where writes were lost: the keys are gone all the same.
  private func lock(_ content: HostLockRecord.Content) throws(ControlError) -> ControlError? {
    do throws(ControlError) {
      if content == .lockEveryClass {
        try lockAll()
      } else {
        try lock(gracePeriod: .zero, includingInactive: content == .lockInactive, wait: true)
      }
      return nil
    } catch {
      guard error.code == .writesLost else { throw error }
      return error
    }
  }

  /// Says that this machine has locked, for what it is: a host, the one that writes, or both.
  private func acknowledge(_ request: HostLockRecord, _ locks: HostLocks, _ file: borrowing KeybagFile) {
    do throws(KeyManagementError) {
      if let host = deviceKey.host { try locks.acknowledge(request, by: host.record.id, beside: file) }
      if !options.isReadOnly { try locks.acknowledge(request, by: nil, beside: file) }
    } catch {
      log.warning("the host that asks is not told that this one has locked", metadata: ["reason": "\(error.code)"])
    }
  }

  private func hostLocks() throws(KeyManagementError) -> HostLocks {
    try HostLocks(of: keybag.withLock { $0.storeID }, deviceKey)
  }
}
