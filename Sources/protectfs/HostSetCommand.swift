import ArgumentParser
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsPolicy
import StoreFormat

/// `protectfs host set`
struct HostSetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "set",
    abstract: "Give a host the keys of other classes than it has.",
    discussion: """
      The host gets the keys of a class that is new to it when it is unlocked the next time. It wipes those of a class that \
      it is not to have any more when it sees that, within a few seconds. It may have kept copies: therefore such a class \
      gets a new key, as with 'protectfs rotate', which needs the store mounted and unlocked.

      Examples:
        protectfs host set --classes A,C /srv/private web1
        protectfs host set --classes C /srv/private 1f0a93c2
      """)

  @OptionGroup var location: StoreArgument

  @Argument(help: .init("The host: its name, or the first digits of its identity.", valueName: "host"))
  var host: String

  @Option(help: .init("The classes whose keys the host is to have, as in A,C.", valueName: "classes"))
  var classes: HostClasses

  @OptionGroup var options: KeybagOptions

  func run() throws {
    let owner = try location.owner()
    let protector = try ItemName(text: host).host(in: StoreSummary.read(owner.backing))
    let before = protector.method.host?.classes ?? []
    let letters = classes.classes.map(\.letter).joined(separator: ", ")
    let label = protector.label.printable
    guard before != classes.classes else {
      print("\(label) has the keys of class \(letters) already.")
      return print("A class that was taken from it, and has had no new key since, needs 'protectfs rotate --class'.")
    }
    let rotation = HostRotation(classes: before.filter { !classes.classes.contains($0) }, owner: owner)
    try rotation.requireUnlocked()
    let secret = try options.opening.read()
    do {
      try owner.change(
        .setHost(protector.id, classes: classes.classes), with: secret, deviceKeyFile: options.deviceKey.file)
    } catch {
      // It may be done, and what failed be something after that.
      let after = try StoreSummary.read(owner.backing).protectors.first { $0.id == protector.id }
      guard after?.method.host?.classes == classes.classes, !rotation.classes.isEmpty else { throw error }
      throw rotation.failure(error)
    }
    let isGivenMore = classes.classes.contains { !before.contains($0) }
    print("\(label) has the keys of class \(letters) now\(isGivenMore ? ", after its next unlock" : "").")
    try rotation.run(with: secret)
  }
}

/// `protectfs host remove`
struct HostRemoveCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "remove",
    abstract: "Remove a host from a store, and give its classes new keys; or remove the request of one.",
    discussion: """
      Where the host is running, it wipes its keys when it sees that, within a few seconds. It may have kept copies: \
      therefore its classes get new keys, as with 'protectfs rotate', which needs the store mounted and unlocked. The \
      key of names and of class none, which every host has, stays the same. A host that has the store mounted to write \
      must unmount it first, or be off (see 'protectfs takeover').

      Examples:
        protectfs host remove /srv/private web1
        protectfs host remove /srv/private 1f0a93c2
      """)

  @OptionGroup var location: StoreArgument

  @Argument(help: .init("The host: its name, or the first digits of its identity.", valueName: "host"))
  var host: String

  @OptionGroup var options: KeybagOptions

  private var name: ItemName { ItemName(text: host) }

  func run() throws {
    let owner = try location.owner()
    let record = try StoreSummary.read(owner.backing)
    if try withdrawRequest(from: owner.backing, record) { return print("The request was removed.") }
    let protector = try name.host(in: record)
    let rotation = HostRotation(classes: protector.method.host?.classes ?? [], owner: owner)
    try rotation.requireUnlocked()
    let secret = try options.opening.read()
    do {
      try owner.change(.removeProtector(protector.id), with: secret, deviceKeyFile: options.deviceKey.file)
    } catch {
      // It may be removed, and what failed be something after that.
      let isThere = try StoreSummary.read(owner.backing).protectors.contains { $0.id == protector.id }
      if isThere { throw error }
      throw rotation.failure(error)
    }
    print("\(protector.label.printable) is no host of the store any more.")
    try rotation.run(with: secret)
  }

  /// Removes the request of a machine that is no host yet; returns whether there is one.
  private func withdrawRequest(from backing: String, _ record: KeybagRecord) throws -> Bool {
    guard let requests = try HostRequests(in: Store.open(backing), of: record.storeID) else { return false }
    let found = try requests.all().filter { name.means($0.id, $0.label) }
    guard found.count == 1, !record.protectors.contains(where: { name.means($0.id, $0.label) }) else { return false }
    try requests.remove(found[0].id)
    return true
  }
}

/// New keys for classes that a host had, and is not to have any more.
private struct HostRotation {
  let classes: [ProtectionClass]
  let owner: StoreOwner

  /// Finds out, before the host is changed, that the classes can be given new keys.
  func requireUnlocked() throws {
    guard case .daemon(let mount) = owner, !classes.isEmpty else { return }
    var daemon = try DaemonConnection(to: mount)
    let status = try daemon.status()
    guard !status.isShared else {
      throw CommandFailure(.failure, "mounted with -o shared, the store's classes get no new keys: mount it without")
    }
    guard status.state == .unlocked else {
      throw CommandFailure(
        .failure, "the mount is locked, and new keys for the host's classes need all keys: unlock it first")
    }
  }

  func run(with secret: borrowing UnlockSecret) throws {
    guard !classes.isEmpty else { return }
    guard case .daemon(let mount) = owner else { throw failure(CommandFailure(.failure, "the store is not mounted")) }
    for (index, fileClass) in classes.enumerated() {
      do {
        try ClassRotation(fileClass: fileClass, mountPoint: mount.mountPoint).run(with: secret)
      } catch {
        throw HostRotation(classes: Array(classes[index...]), owner: owner).failure(error)
      }
    }
  }

  /// What is left to do.
  func failure(_ error: any Error) -> CommandFailure {
    let mountPoint = if case .daemon(let mount) = owner { mount.mountPoint.shellQuoted } else { "MOUNTPOINT" }
    let commands = classes.map { "\n    protectfs rotate --class \($0.letter) \(mountPoint)" }.joined()
    let reason = CommandFailure(error)?.message ?? "\(error)"
    return CommandFailure(
      .partial,
      "classes that it had keep their keys (\(reason)) until they are rotated, with the store mounted:\(commands)")
  }
}
