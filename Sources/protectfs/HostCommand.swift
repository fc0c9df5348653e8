import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// `protectfs host`
struct HostCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "host",
    abstract: "Let several machines use one store, each with classes and a passcode of its own.",
    discussion: """
      The machine that a store was made on opens all of it, and changes its keys. Others become hosts: each has the \
      keys of some classes, which its own passcode opens, and never those of others.

      Examples:
        protectfs host add /srv/store --classes C --name web1     (on the new host)
        protectfs host accept /srv/private                        (where the store was made)
        protectfs host list /srv/private
        protectfs host remove /srv/private web1
      """,
    subcommands: [HostAddCommand.self, HostAcceptCommand.self, HostListCommand.self, HostRemoveCommand.self])
}

/// `protectfs host accept`
struct HostAcceptCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "accept",
    abstract: "Make a machine that asked for it a host of a store.",
    discussion: """
      Asks for the pairing code that 'protectfs host add' has printed there. The code shows that the request is that \
      machine's, and shows it that the keys are the store's.

      Every host has the key of names and records: with the store it can read names, and the files of class none, and \
      it can forge records.

      Examples:
        protectfs host accept /srv/private
        protectfs host accept --classes C /srv/private
        protectfs host accept --code-file code --passcode-file secret /srv/store
      """)

  @OptionGroup var location: StoreArgument

  @Option(
    name: .customLong("classes"),
    help: .init("The classes whose keys the host gets, in place of those that it asks for.", valueName: "classes"))
  var classes: HostClasses?

  @Option(
    help: .init("Read the pairing code from a file; '-' is standard input.", valueName: "file"), completion: .file())
  var codeFile: String?

  @OptionGroup var options: KeybagOptions

  func run() throws {
    let owner = try location.ownerOfStore()
    try options.requireDeviceKey(owner)
    let source = SecretSource(file: codeFile) ?? .terminal(instead: "--code-file")
    let code = try source.read("Pairing code", options.opening.files)
    let (id, label, asked) = try request(code, owner.backing)
    let given = classes?.classes ?? asked
    let names = given.map(\.letter).joined(separator: ", ")
    if codeFile == nil { CommandFailure.report("\(label.printable) gets the keys of class \(names)") }
    try owner.addHost(code, classes: given, with: options.opening.read(), deviceKeyFile: options.deviceKey.file)
    print(
      "\(label.printable) (\(id.prefix(8))) is a host of the store now, with class \(names). It can mount the store.")
  }

  /// The host's identity, what the machine calls itself, and the classes that it asks for.
  private func request(
    _ code: borrowing SecretBytes, _ backing: String
  ) throws -> (id: String, label: String, classes: [ProtectionClass]) {
    let acceptance = try HostAcceptance(code, in: Store.open(backing), of: StoreSummary.read(backing).storeID)
    return (acceptance.id.hexadecimal, acceptance.label, acceptance.classes)
  }
}

/// `protectfs host list`
struct HostListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "List the hosts of a store, and those that ask to be.",
    discussion: """
      Shows the identity of each host, of which the first digits are enough, its classes, and its name. No secret is \
      needed.

      Examples:
        protectfs host list /srv/private
        protectfs host list --json /srv/store
      """)

  @OptionGroup var location: StoreArgument

  @Flag(help: "Report in JSON.")
  var json = false

  struct Host: Encodable {
    let id: String
    let name: String
    let classes: [ProtectionClass]
    /// Whether it is a host; otherwise it asks to be one.
    let isAccepted: Bool
  }

  func run() throws {
    let backing = try location.owner().backing
    let record = try StoreSummary.read(backing)
    var hosts = record.protectors.compactMap { protector in
      protector.method.host.map {
        Host(id: protector.id.hexadecimal, name: protector.label, classes: $0.classes, isAccepted: true)
      }
    }
    if let requests = try HostRequests(in: Store.open(backing), of: record.storeID) {
      hosts += try requests.all().map {
        Host(id: $0.id.hexadecimal, name: $0.label, classes: $0.classes, isAccepted: false)
      }
    }
    if json { return try JSONOutput.show(hosts) }
    for host in hosts {
      let classes = host.classes.map(\.letter).joined(separator: " ").padded(to: 9)
      print("\(host.id.prefix(8))  \(classes) \(host.name.printable)\(host.isAccepted ? "" : ", asks to be a host")")
    }
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
    let hosts = record.protectors.filter { $0.method.host != nil && name.means($0.id, $0.label) }
    let protector = try name.one(of: hosts, "host", shownBy: "host list")
    if case .daemon(let mount) = owner { try requireRotatable(mount) }
    let secret = try options.opening.read()
    let classes = protector.method.host?.classes ?? []
    do {
      try owner.change(.removeProtector(protector.id), with: secret, deviceKeyFile: options.deviceKey.file)
    } catch {
      // It may be removed, and what failed be something after that.
      let isThere = try StoreSummary.read(owner.backing).protectors.contains { $0.id == protector.id }
      if isThere { throw error }
      let reason = CommandFailure(error)?.message ?? "\(error)"
      throw Self.failure(classes, "MOUNTPOINT", reason)
    }
    print("\(protector.label.printable) is no host of the store any more.")
    guard case .daemon(let mount) = owner else {
      throw Self.failure(classes, "MOUNTPOINT", "the store is not mounted")
    }
    for (index, fileClass) in classes.enumerated() {
      do {
        try ClassRotation(fileClass: fileClass, mountPoint: mount.mountPoint).run(with: secret)
      } catch {
        let reason = CommandFailure(error)?.message ?? "\(error)"
        throw Self.failure(Array(classes[index...]), mount.mountPoint.shellQuoted, reason)
      }
    }
  }

  /// Removes the request of a machine that is no host yet; returns whether there is one.
  private func withdrawRequest(from backing: String, _ record: KeybagRecord) throws -> Bool {
    guard let requests = try HostRequests(in: Store.open(backing), of: record.storeID) else { return false }
    let found = try requests.all().filter { name.means($0.id, $0.label) }
    guard found.count == 1, !record.protectors.contains(where: { name.means($0.id, $0.label) }) else { return false }
    try requests.remove(found[0].id)
    return true
  }

  /// Finds out, before the host is removed, that its classes can be given new keys.
  private func requireRotatable(_ mount: MountedFileSystem) throws {
    var daemon = try DaemonConnection(to: mount)
    guard try daemon.status().state == .unlocked else {
      throw CommandFailure(
        .failure, "the mount is locked, and new keys for the host's classes need all keys: unlock it first")
    }
  }

  /// What is left to do.
  private static func failure(
    _ classes: [ProtectionClass], _ mountPoint: String, _ reason: String
  ) -> CommandFailure {
    let commands = classes.map { "\n    protectfs rotate --class \($0.letter) \(mountPoint)" }.joined()
    return CommandFailure(
      .partial,
      "classes that it had keep their keys (\(reason)) until they are rotated, with the store mounted:\(commands)")
  }
}

/// Classes that a host has keys of, as in `A,C`.
struct HostClasses: ExpressibleByArgument {
  /// Sorted by their numbers.
  let classes: [ProtectionClass]

  init?(argument: String) {
    let given = argument.split(separator: ",").map { ProtectionClass(name: String($0)) }
    classes = [ProtectionClass].ofHosts.filter(given.contains)
    // The keys of class D need no passcode: every host has them.
    guard !classes.isEmpty, given.allSatisfy({ $0 != nil && $0 != ProtectionClass.none }) else { return nil }
  }
}
