import DataProtectionCore
import Glibc
import LinuxIO
import Logging
import SystemPackage

// The scripts of one event, run one after the other within the time that they have.
extension HookRunner {
  /// How long a script may take after a lock or an unlock.
  private static let patience = Duration.seconds(60)
  /// From SIGTERM to SIGKILL.
  private static let respite = Duration.seconds(2)

  /// Runs all scripts for an event.
  func run(_ job: Job) {
    defer {
      if job.event == .preLock {
        monitor.update { state in
          state.finishedPreLocks += 1
          state.heldUntil = nil
        }
      }
    }
    let bound = job.gracePeriodEnd.map { boundOfLock(job, $0) }
    for script in scripts(for: job.event) {
      let state = monitor.read { $0 }
      if state.isEnding { return }
      // A lock that was cancelled needs no preparation any more.
      if job.event == .preLock, state.endedLocks > job.endedLocks { return }
      if let bound, ContinuousClock.now >= bound {
        log.warning("a hook was not run: the time before the lock is up", metadata: ["hook": "\(script)"])
        continue
      }
      run(script, job, until: bound ?? .now + Self.patience, seconds: bound.map { ($0 - .now) / .seconds(1) })
    }
  }

  /// The end of the time before a lock. The daemon tells it to who holds the lock back; that comes beside the event.
  private func boundOfLock(_ job: Job, _ gracePeriodEnd: ContinuousClock.Instant) -> ContinuousClock.Instant {
    _ = waits(.seconds(1)) { $0.heldUntil != nil || $0.isEnding || $0.endedLocks > job.endedLocks }
    return monitor.read(\.heldUntil) ?? gracePeriodEnd
  }

  private func scripts(for event: HookEvent) -> [String] {
    directories.flatMap { directory in
      directory.scripts(for: event) { path in
        log.warning(
          "hooks are passed over: it belongs to another user, or others can write it", metadata: ["path": "\(path)"])
      }
    }
  }

  private func run(_ path: String, _ job: Job, until bound: ContinuousClock.Instant, seconds: Double?) {
    let script: HookScript
    do throws(Errno) {
      script = try HookScript(path, environment: environment(of: job, seconds: seconds))
    } catch {
      log.warning("a hook could not be started", metadata: ["hook": "\(path)", "error": "\(error)"])
      return
    }
    monitor.update { state in
      state.hasScriptEnded = false
      state.hasOutputEnded = false
    }
    let watch = Thread(name: "hook") { [self] in
      script.waitForEnd()
      monitor.update { $0.hasScriptEnded = true }
    }
    let isRead = OutputFlag()
    Thread(name: "hook output") { [self] in
      script.readLines { log.info("hook", metadata: ["hook": "\(path)", "output": "\($0)"]) }
      // What an earlier script has left running may print for long.
      monitor.update { state in if isRead.isCurrent { state.hasOutputEnded = true } }
    }.detach()
    waitForEnd(of: script, path, job, until: bound)
    watch.join()
    _ = waits(.milliseconds(200), until: \.hasOutputEnded)
    monitor.update { _ in isRead.isCurrent = false }
    report(script.reap(), of: path)
  }

  private func waitForEnd(of script: HookScript, _ path: String, _ job: Job, until bound: ContinuousClock.Instant) {
    _ = waits(max(.zero, bound - .now)) { state in
      state.hasScriptEnded || state.isEnding || job.event == .preLock && state.completedLocks > job.completedLocks
    }
    if monitor.read(\.hasScriptEnded) { return }
    if !monitor.read(\.isEnding) { log.warning("a hook takes too long, and is ended", metadata: ["hook": "\(path)"]) }
    script.send(SIGTERM)
    _ = waits(Self.respite, until: \.hasScriptEnded)
    // Also for what has outlived the script.
    script.send(SIGKILL)
  }

  private func report(_ ending: HookScript.Ending, of path: String) {
    switch ending {
    case .exited(0): log.debug("a hook has run", metadata: ["hook": "\(path)"])
    case .exited(let status): log.warning("a hook failed", metadata: ["hook": "\(path)", "status": "\(status)"])
    case .killed(let signal): log.warning("a hook was killed", metadata: ["hook": "\(path)", "signal": "\(signal)"])
    }
  }

  private func environment(of job: Job, seconds: Double?) -> [String] {
    var variables = [
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=\(Self.home)",
      "PROTECTFS_EVENT=\(job.event.rawValue)", "PROTECTFS_MOUNT_POINT=\(mount.mountPoint)",
      "PROTECTFS_CLASSES=\(job.classes.map(\.letter).joined(separator: " "))",
    ]
    if let seconds {
      let tenths = Int((max(0, seconds) * 10).rounded())
      variables.append("PROTECTFS_SECONDS=\(tenths / 10)\(tenths % 10 == 0 ? "" : ".\(tenths % 10)")")
    }
    return variables
  }

  /// The user's directory, also where a service manager has set none.
  private static let home: String = {
    if let variable = unsafe getenv("HOME") { return unsafe String(cString: variable) }
    guard let entry = unsafe getpwuid(geteuid()), let directory = unsafe entry.pointee.pw_dir else { return "/" }
    return unsafe String(cString: directory)
  }()
}

/// Whether a script is the last that was started. Used with the state of the runner locked only.
private final class OutputFlag: @unchecked Sendable {
  var isCurrent = true
}
