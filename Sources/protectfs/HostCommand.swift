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
        protectfs host set --classes C /srv/private web1
        protectfs host remove /srv/private web1
      """,
    subcommands: [
      HostAddCommand.self, HostAcceptCommand.self, HostListCommand.self, HostSetCommand.self, HostRemoveCommand.self,
    ])
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
