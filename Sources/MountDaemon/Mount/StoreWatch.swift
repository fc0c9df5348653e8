import FileSystem
import Logging
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage

/// Asks a file system that may serve several hosts whether this one still has the claim to write the store, and whether
/// it answers at all.
///
/// A host may be cut off or suspended, and go on when another has taken its place. So requests wait while the last
/// answer is too old (``StoreHold``).
final class StoreWatch: Sendable {
  private static let interval: Int64 = 1_000_000_000

  private let daemon: Daemon
  private let claim: WriterClaim?
  /// When the file system has last answered.
  private let answered = Atomic(MonotonicClock.nanosecondsWithSuspension)

  /// - Parameter claim: of a mount that writes.
  init(_ daemon: Daemon, _ claim: WriterClaim?) {
    (self.daemon, self.claim) = (daemon, claim)
    if let claim { daemon.fileSystem.hold.note(asked: claim.time) }
  }

  func start() {
    if claim != nil {
      let waits = WriterClaim.keepsOutClients(daemon.backing) ? "the file system" : "'protectfs takeover'"
      daemon.log.notice(
        "other hosts may use the file system of the store",
        metadata: ["if this one is lost, a standby waits for": "\(waits)"])
    }
    Thread(name: "store watch", run).detach()
    guard let isolation = daemon.options.isolation else { return }
    // Another one: the first may be waiting for the file system.
    Thread(name: "isolation") { self.watchIsolation(isolation) }.detach()
  }

  private func run() {
    var failure: Errno?
    var looksWithoutLock = 0
    while true {
      let start = MonotonicClock.nanosecondsWithSuspension
      daemon.fileSystem.hold.note(failing: false)
      switch claim?.state() ?? reachability {
      case .held:
        (failure, looksWithoutLock) = (nil, 0)
        noteAnswer()
        if let claim { daemon.fileSystem.hold.note(asked: claim.time) }
      case .unlocked(let error):
        noteAnswer()
        looksWithoutLock += 1
        if looksWithoutLock < WriterClaim.mostLooksWithoutLock { break }
        if error == .wouldBlock { end(WriterClaim.reasonOfLock) }
        daemon.fileSystem.hold.note(failing: true)
      case .lost(let reason): end(reason)
      case .unknown(let error):
        daemon.fileSystem.hold.note(failing: true)
        if error != failure { daemon.log.warning("the store's file system fails", metadata: ["error": "\(error)"]) }
        failure = error
      }
      let duration = MonotonicClock.nanosecondsWithSuspension - start
      if duration > StoreHold.validity {
        let seconds = "\(duration / 1_000_000_000) s"
        daemon.log.warning("the store's file system is slow: requests wait for it", metadata: ["time": "\(seconds)"])
      }
      // What fails slowly fails all the time in between.
      let next = failure == nil ? start : MonotonicClock.nanosecondsWithSuspension
      MonotonicClock.sleep(untilWithSuspension: next + Self.interval)
    }
  }

  private func noteAnswer() { answered.store(MonotonicClock.nanosecondsWithSuspension, ordering: .relaxed) }

  /// What a mount that only reads asks for. A client of CephFS that was blocklisted says so when something is opened.
  private var reachability: WriterClaim.State {
    do throws(Errno) {
      _ = try daemon.backing.statusOfServer()
      return .held
    } catch {
      let failure = error
      do throws(Errno) { _ = try daemon.backing.open(".", [.readOnly, .directory]) } catch .socketShutdown {
        return .lost(reason: "its file system does not let this host read any more")
      } catch {}
      return .unknown(failure)
    }
  }

  /// Ends the process at once. All that it knows of the store may be wrong by now, and whatever it still wrote would be
  /// written into what another host relies on; the process beside it takes the kernel's pages away (``KeptMount``).
  private func end(_ reason: String) -> Never {
    daemon.log.critical("the store is lost, and the mount ends at once", metadata: ["reason": "\(reason)"])
    Process.exitAtOnce(WriterClaim.statusOfLoss)
  }

  /// Locks everything whenever the file system has not answered for so long, sleep of the machine included: whoever
  /// took this host away has its keys in memory, and nobody else can lock it.
  private func watchIsolation(_ isolation: Duration) {
    let patience = Int64(isolation / .nanoseconds(1))
    while true {
      let last = answered.load(ordering: .relaxed)
      MonotonicClock.sleep(untilWithSuspension: last + patience)
      if answered.load(ordering: .relaxed) != last { continue }
      daemon.log.warning("the store was not reached for too long: everything is locked")
      daemon.machine.cancelUnlocks()
      daemon.machine.lockEverything()
      while answered.load(ordering: .relaxed) == last { MonotonicClock.sleep(microseconds: 100_000) }
    }
  }
}
