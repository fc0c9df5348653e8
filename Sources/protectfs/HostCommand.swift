import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
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
    help: .init(
      "A class whose keys the host gets, in place of those it asks for; several times for several.",
      valueName: "class"))
  var classes: [ProtectionClass] = []

  @Option(
    help: .init("Read the pairing code from a file; '-' is standard input.", valueName: "file"), completion: .file())
  var codeFile: String?

  @OptionGroup var options: KeybagOptions

  func validate() throws {
    if !classes.isEmpty { try requireHostClasses(classes) }
  }

  func run() throws {
    let owner = try location.ownerOfStore()
    try options.requireDeviceKey(owner)
    let source = SecretSource(file: codeFile) ?? .terminal(instead: "--code-file")
    let code = try source.read("Pairing code", options.opening.files)
    let (label, asked) = try request(code, owner.backing)
    let given = classes.isEmpty ? asked : [ProtectionClass].ofHosts.filter(classes.contains)
    let names = given.map(\.letter).joined(separator: ", ")
    if codeFile == nil { CommandFailure.report("\(label.printable) gets the keys of class \(names)") }
    try owner.addHost(code, classes: given, with: options.opening.read(), deviceKeyFile: options.deviceKey.file)
    print("\(label.printable) is a host of the store now, with class \(names). It can mount the store.")
  }

  /// What the machine calls itself, and the classes that it asks for.
  private func request(_ code: borrowing SecretBytes, _ backing: String) throws -> (String, [ProtectionClass]) {
    let acceptance = try HostAcceptance(code, in: Store.open(backing), of: StoreSummary.read(backing).storeID)
    return (acceptance.label, acceptance.classes)
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
    abstract: "Remove a host from a store, and give its classes new keys.",
    discussion: """
      Where the host is running, it wipes its keys when it sees that, within a few seconds. It may have kept copies: \
      therefore its classes get new keys, as with 'protectfs rotate', which needs the store mounted and unlocked. The \
      key of names and of class none, which every host has, stays the same.

      Examples:
        protectfs host remove /srv/private web1
        protectfs host remove /srv/private 1f0a93c2
      """)

  @OptionGroup var location: StoreArgument

  @Argument(help: .init("The host: its name, or the first digits of its identity.", valueName: "host"))
  var host: String

  @OptionGroup var options: KeybagOptions

  func run() throws {
    let owner = try location.owner()
    let protector = try find(in: StoreSummary.read(owner.backing).protectors)
    let secret = try options.opening.read()
    try owner.change(.removeProtector(protector.id), with: secret, deviceKeyFile: options.deviceKey.file)
    print("\(protector.label.printable) is no host of the store any more.")
    let classes = protector.method.host?.classes ?? []
    guard case .daemon(let mount) = owner else {
      let commands = classes.map { "\n    protectfs rotate --class \($0.letter) MOUNTPOINT" }.joined()
      throw CommandFailure(
        .partial, "the classes that it had keep their keys until the store is mounted and they are rotated:\(commands)")
    }
    for fileClass in classes {
      try ClassRotation(fileClass: fileClass, mountPoint: mount.mountPoint).run(with: secret)
    }
  }

  private func find(in protectors: [KeybagRecord.Protector]) throws(CommandFailure) -> KeybagRecord.Protector {
    let found = protectors.filter {
      $0.method.host != nil
        && ($0.label == host || host.utf8.count >= 4 && $0.id.hexadecimal.hasPrefix(host.lowercased()))
    }
    guard let first = found.first else {
      throw CommandFailure(.failure, "there is no host '\(host)'; 'protectfs host list' shows those there are")
    }
    guard found.count == 1 else {
      throw CommandFailure(.failure, "'\(host)' may mean \(found.count) hosts; give more digits of its identity")
    }
    return first
  }
}

/// Finds out that classes are such as a host can have keys of.
func requireHostClasses(_ classes: [ProtectionClass]) throws {
  guard !classes.isEmpty, !classes.contains(.none) else {
    throw ValidationError(
      "A host has keys of class A, B, C or CX; those of D need no passcode, and every host has them.")
  }
}
