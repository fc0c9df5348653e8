import ArgumentParser
import ProtectfsClient

/// `protectfs status`
struct StatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Show the state of a mount, or of a file on one.",
    discussion: """
      Of a mount: locked or unlocked, how long it stays so, and for each class what is in memory of its key and how \
      many files are open. Of a file or directory on a mount: its class, whether it can be used now, and if not, \
      whether its class or its permissions are the reason. Without a path: all mounts of this user, or for root all \
      mounts; if one does not answer, the exit status is that of the first such.

      With --json, a mount is an object of the type Status in the control protocol (PROTOCOL.md), and all mounts are \
      an array of these, also where there is one or none.

      Examples:
        protectfs status
        protectfs status ~/private
        protectfs status --json ~/private/diary
      """)

  @Argument(help: "A mount point, a file or directory on a mount, or a backing directory.", completion: .file())
  var path: String?

  @Flag(help: "Report in JSON.")
  var json = false

  func run() throws {
    guard let path else { return try showAll() }
    let mount = try MountedFileSystem.containing(path)
    if try mount == nil || CanonicalPath.of(path) == mount?.mountPoint {
      try DaemonPath.withEach(of: path) { daemon in
        let status = try daemon.status()
        if json { try JSONOutput.show(status) } else { show(status) }
      }
    } else {
      let status = try PathStatus(path: path)
      if json { try JSONOutput.show(status) } else { print(status.report) }
    }
  }

  private func showAll() throws {
    var statuses: [DaemonStatus] = []
    let all = try UserMounts()
    for index in all.mounts.indices { all.attempt(index) { statuses.append(try $0.status()) } }
    if json {
      try JSONOutput.show(statuses)
    } else if all.mounts.isEmpty {
      print("Nothing is mounted.")
    }
    for (index, status) in statuses.enumerated() where !json {
      if index > 0 { print() }
      show(status)
    }
    try all.finish(of: "asked")
  }

  private func show(_ status: DaemonStatus) {
    let state =
      status.erased.map { "erased on \($0); nothing can be read".coloured(.red) }
      ?? status.state.words.coloured(status.state == .unlocked || status.state == .gracePeriod ? .green : .yellow)
    print("\(status.mountPoint.printable): \(state)")
    func line(_ name: String, _ value: String) { print("  \(name.padded(to: 13)) \(value)") }
    if let seconds = status.secondsUntilRevoked {
      line("locks in", "\(status.delayingClients > 0 ? "at most " : "")\(seconds.seconds), unless it is unlocked")
    }
    if status.delayingClients > 0 { line("waits for", status.delayingClients.clients) }
    if let seconds = status.secondsUntilInactive { line("CX goes in", seconds.seconds) }
    if let seconds = status.secondsUntilRest { line("at rest in", seconds.seconds) }
    if !MountedFileSystem.all().contains(where: { $0.mountPoint == status.mountPoint }) {
      line("mount point", "not here any more: another process holds the file system")
    }
    line("backing", status.backing.printable)
    line("store", status.storeID)
    if let host = status.host {
      let classes = (status.hostClasses ?? []).map(\.letter).joined(separator: ", ")
      line("host", "\(host.printable), with the keys of class \(classes)")
    }
    line("default class", "\(status.defaultClass.name) (\(status.defaultClass.letter))")
    line("grace period", "\(status.gracePeriod.seconds); class CX \(status.inactivityPeriod.seconds)")
    let options = [status.isReadOnly ? "read-only" : nil, status.isShared ? "shared" : nil].compactMap { $0 }
    line(
      "daemon", (["process \(status.processID)", "user \(status.owner)"] + options).joined(separator: ", "))
    let transport = status.transport == .ioUring ? "io_uring" : "/dev/fuse"
    let reason = status.transportReason.map { status.transport == .ioUring ? ": \($0)" : ", not io_uring: \($0)" }
    line("requests", "through \(transport)\(reason ?? "")")
    if status.refusals > 0 { line("refused", "\(status.refusals) accesses because of a class") }
    if status.pendingRekeys > 0 {
      let waiting = status.lockedRekeys > 0 ? ", \(status.lockedRekeys) after an unlock" : ""
      let failed = status.failedRekeys > 0 ? ", \(status.failedRekeys) failed and are tried again" : ""
      line("new keys", "\(status.pendingRekeys.files) to be encrypted anew\(waiting)\(failed)")
    }
    if status.undecodableNames > 0 {
      line("left out", "\(status.undecodableNames) names in the backing directory that are not of this store")
    }
    print("  \("class".padded(to: 40)) \("key".padded(to: 13)) open files")
    for entry in status.classes {
      let name = "\(entry.protectionClass.letter.padded(to: 2)) \(entry.protectionClass.name)"
      print("  \(name.padded(to: 40)) \(entry.key.words.padded(to: 13)) \(entry.openHandles)")
    }
  }
}
