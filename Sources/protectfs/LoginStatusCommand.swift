import ArgumentParser
import ProtectfsClient
import ProtectfsIO
import SystemPackage

/// `protectfs login status`
struct LoginStatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Show what is mounted when you log in.",
    discussion: """
      Also shows whether it is mounted now, and whether the parts of libpam-protectfs are in place. The exit status is 1 \
      if one of them is missing while a store is on, or the next login could not mount it.

      Example:
        protectfs login status --json
      """)

  @Flag(help: "Report in JSON.")
  var json = false

  private struct Report: Encodable {
    var settings: LoginSettings?
    var isMounted: Bool
    var problem: String?
    var parts: LoginParts
  }

  func run() throws {
    try LoginCommand.requireUser()
    let settings = try LoginSettings.read()
    let mount = try settings.flatMap { try MountedFileSystem.at($0.mountPoint) }
    let parts = LoginParts.found
    let problem = settings?.problem
    if json {
      try JSONOutput.show(Report(settings: settings, isMounted: mount != nil, problem: problem, parts: parts))
    } else if let settings {
      print("On: \(settings.backing.printable) at \(settings.mountPoint.printable)")
      if !settings.options.isEmpty { print("  options  \(settings.options.printable)") }
      print("  mounted  \(mount == nil ? "no; 'protectfs login enable' mounts it" : "yes")")
      if let problem { print("  problem  \(problem); '\(settings.remedy)' sets it anew") }
      print("  module   \(parts.module ?? "missing: install libpam-protectfs")")
      print("  in PAM   \(parts.isInStack ? "yes" : "no: 'pam-auth-update --enable protectfs' as root")")
      print("  service  \(parts.unit ?? "missing: install protectfs")")
    } else {
      print("Off: nothing is mounted when you log in; 'protectfs login enable' turns it on.")
    }
    if settings != nil, !parts.areComplete || problem != nil { throw ExitCode(ExitStatus.failure.rawValue) }
  }
}

/// What has to be installed so that logins unlock.
struct LoginParts: Encodable {
  /// The path of the module.
  var module: String?
  /// The path of the service.
  var unit: String?
  /// Whether PAM's common configuration names the module.
  var isInStack: Bool

  /// What root has to do, in this order.
  var remedies: [String] {
    [
      unit == nil ? "install protectfs" : nil, module == nil ? "install libpam-protectfs" : nil,
      isInStack ? nil : "run 'pam-auth-update --enable protectfs'",
    ].compactMap(\.self)
  }

  var areComplete: Bool { remedies.isEmpty }

  /// What is there.
  static var found: LoginParts {
    func first(_ paths: [String]) -> String? {
      paths.first { PathName($0).isThere }
    }
    let libraries = ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib", "/usr/lib"]
    let units = ["/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"].map { "\($0)/systemd/system" }
    let stack = try? Descriptor.open("/etc/pam.d/common-session", [.readOnly]).readAll(limit: 65_536)
    let lines = String(decoding: stack ?? [], as: UTF8.self).split(separator: "\n")
    return LoginParts(
      module: first(libraries.map { "\($0)/security/pam_protectfs.so" }),
      unit: first(units.map { "\($0)/protectfs-user@.service" }),
      isInStack: lines.contains { !$0.hasPrefix("#") && $0.contains("pam_protectfs.so") })
  }
}
