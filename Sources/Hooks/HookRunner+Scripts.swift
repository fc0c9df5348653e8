import Logging
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// The scripts of one event, run one after the other within the time that they have.
extension HookRunner {
  /// How long a script may take after a lock or an unlock.
  private static let patience = Duration.seconds(60)
  /// From SIGTERM to SIGKILL, and from the end of a script to that of what it has left running to print.
  private static let respite = Duration.seconds(2)
  /// How many lines that a script prints are logged.
  private static let mostLines = 200

  /// Runs all scripts for an event.
  func run(_ job: Job) {
    let bound = job.gracePeriodEnd.map { boundOfLock(job, $0) }
    for script in scripts(for: job.event) {
      let state = monitor.read { $0 }
      if state.isEnding { return }
      if job.event == .preLock, state.hasEnded(job.lock) {
        // One that was cancelled needs no preparation any more.
        guard state.completedLock == job.lock else { return }
        log.warning("a hook was not run: the lock has taken effect", metadata: ["hook": "\(script)"])
        continue
      }
      if let bound, ContinuousClock.now >= bound {
        log.warning("a hook was not run: the time before the lock is up", metadata: ["hook": "\(script)"])
        continue
      }
      run(script, job, until: bound ?? .now + Self.patience, seconds: bound.map { ($0 - .now) / .seconds(1) })
    }
  }

  /// The end of the time before a lock. The daemon tells it to who holds the lock back; that comes beside the event.
  private func boundOfLock(_ job: Job, _ gracePeriodEnd: ContinuousClock.Instant) -> ContinuousClock.Instant {
    func isHeld(_ state: State) -> Bool { state.held?.lock == job.lock }
    _ = waits(.seconds(1)) { isHeld($0) || $0.isEnding || $0.hasEnded(job.lock) }
    let state = monitor.read { $0 }
    return isHeld(state) ? state.held?.until ?? gracePeriodEnd : gracePeriodEnd
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
    let script: ChildProcess
    do throws(Errno) {
      script = try ChildProcess(path, [], .own(environment: environment(of: job, seconds: seconds)))
    } catch {
      log.warning("a hook could not be started", metadata: ["hook": "\(path)", "error": "\(error)"])
      return
    }
    let number = monitor.update { state in
      state.nextScript += 1
      state.scripts[state.nextScript] = Progress()
      return state.nextScript
    }
    var watch: Thread?
    do throws(Errno) {
      watch = try Thread(starting: "hook") { [self] in
        script.waitForEnd()
        monitor.update { $0.scripts[number]?.hasEnded = true }
      }
      try Thread(starting: "hook output") { [self] in
        logOutput(of: script, number, path)
        monitor.update { $0.scripts[number]?.hasOutputEnded = true }
      }.detach()
      waitForEnd(of: script, number, path, job, until: bound)
    } catch {
      // Neither its output nor, perhaps, its end would be noticed.
      log.warning("a hook is ended, as no thread can be started", metadata: ["hook": "\(path)", "error": "\(error)"])
      script.killGroup()
      script.waitForEnd()
      monitor.update { $0.scripts[number]?.hasOutputEnded = true }
    }
    watch?.join()
    // What the script has left running may print for longer.
    _ = waits(.milliseconds(200)) { $0.scripts[number]?.hasOutputEnded ?? true }
    monitor.update { $0.scripts[number] = nil }
    report(script.reap(), of: path)
  }

  /// Logs what a script prints, and shortly after its end what it has left running prints.
  private func logOutput(of script: ChildProcess, _ number: Int, _ path: String) {
    var count = 0
    var end: ContinuousClock.Instant?
    script.readLines { line in
      count += 1
      switch count - Self.mostLines {
      case ...0: log.info("hook", metadata: ["hook": "\(path)", "output": "\(line)"])
      case 1: log.warning("a hook prints more than is logged", metadata: ["hook": "\(path)"])
      default: break
      }
    } isOver: {
      if end == nil, monitor.read({ $0.scripts[number]?.hasEnded ?? true }) { end = .now + Self.respite }
      return end.map { .now >= $0 } ?? false
    }
  }

  private func waitForEnd(
    of script: ChildProcess, _ number: Int, _ path: String, _ job: Job, until bound: ContinuousClock.Instant
  ) {
    func hasEnded(_ state: State) -> Bool { state.scripts[number]?.hasEnded ?? true }
    _ = waits(max(.zero, bound - .now)) { state in
      hasEnded(state) || state.isEnding || job.event == .preLock && state.hasEnded(job.lock)
    }
    let state = monitor.read { $0 }
    if hasEnded(state) { return }
    if job.event == .preLock, state.hasEnded(job.lock), state.completedLock != job.lock {
      log.info("a hook is ended: the lock was cancelled", metadata: ["hook": "\(path)"])
    } else if !state.isEnding {
      log.warning("a hook takes too long, and is ended", metadata: ["hook": "\(path)"])
    }
    script.endGroup()
    _ = waits(Self.respite, until: hasEnded)
    // Also for what has outlived the script.
    script.killGroup()
  }

  private func report(_ ending: ChildProcess.Ending?, of path: String) {
    switch ending {
    case .exited(0): log.debug("a hook has run", metadata: ["hook": "\(path)"])
    case .exited(let status): log.warning("a hook failed", metadata: ["hook": "\(path)", "status": "\(status)"])
    case .killed(let signal): log.warning("a hook was killed", metadata: ["hook": "\(path)", "signal": "\(signal)"])
    case nil: log.warning("a hook has ended, and it is unknown how", metadata: ["hook": "\(path)"])
    }
  }

  private func environment(of job: Job, seconds: Double?) -> [String] {
    var variables = [
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=\(Process.homeDirectory)",
      "PROTECTFS_EVENT=\(job.event.rawValue)", "PROTECTFS_MOUNT_POINT=\(mount.mountPoint)",
      "PROTECTFS_CLASSES=\(job.classes.map(\.letter).joined(separator: " "))",
    ]
    if let seconds {
      let tenths = Int((max(0, seconds) * 10).rounded())
      variables.append("PROTECTFS_SECONDS=\(tenths / 10)\(tenths % 10 == 0 ? "" : ".\(tenths % 10)")")
    }
    return variables
  }
}
