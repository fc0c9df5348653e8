import ArgumentParser
import Cryptography
import KeyManagement
import MountDaemon
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage

/// `protectfs host add`
struct HostAddCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "add",
    abstract: "Ask, on a new host, for the keys of classes of a store.",
    discussion: """
      Asks for a passcode, which is this host's own, and prints a pairing code. Give that to 'protectfs host accept' on \
      the machine that the store was made on; then the store can be mounted here. The file with this host's keys is not \
      to be copied to another machine, as with its image: that asks for itself.

      Examples:
        protectfs host add /srv/store --classes C
        protectfs host add /srv/store --classes A,C --name web1
      """)

  @Argument(help: .init("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @Option(
    name: .customLong("classes"),
    help: .init("The classes that this host is to have the keys of, as in A,C.", valueName: "classes"))
  var classes: HostClasses

  @Option(help: .init("The name of this host, up to 64 bytes; by default that of the machine.", valueName: "name"))
  var name: String?

  @OptionGroup(title: "New passcode options") var passcode: PasscodeOptions<NewPasscode>
  @OptionGroup(title: "New passcode options") var new: NewPasscodeOptions
  @OptionGroup var files: SecretFileOptions

  @Option(help: .init("Write the pairing code to a new file.", valueName: "file"), completion: .file())
  var codeFile: String?

  @Option(
    name: .customLong("device-key"),
    help: .init("Keep this host's keys in a file whose name ends in '.host'.", valueName: "file"), completion: .file())
  var deviceKeyFile: String?

  func validate() throws {
    guard deviceKeyFile?.hasSuffix(".host") != false else { throw ValidationError("The file's name ends in '.host'.") }
    guard name.map({ (1...KeybagRecord.Protector.longestLabel).contains($0.utf8.count) }) != false else {
      throw ValidationError("A name has 1 to 64 bytes.")
    }
  }

  func run() throws {
    let path = try CanonicalPath.ofBacking(backing)
    let (bytes, record) = try StoreSummary.readKeybag(path)
    if let time = record.erasureTime { throw KeyManagementError.storeErased(at: time) }
    let file = deviceKeyFile.map { PathName($0) }
    try requireNoHost(record, file)
    if file == nil, DeviceKey.opens(bytes, of: record.storeID) {
      throw CommandFailure(.failure, "this machine has the device key of the store, and opens it as a whole")
    }
    let output = try codeFile.map { try NewSecretFile(path: $0) }
    let passcode = try passcode.source.readNew("New passcode of this host", files, new)
    let label = name ?? Process.hostName
    let made = try HostKey.create(
      for: record.storeID, label: label, classes: classes.classes, passcode: passcode, file: file)
    do {
      let directory = try Store.open(path)
      try HostRequests.add(made.request, to: directory)
      do {
        try SecretOutput.show(made.code.text(), "pairing code", output, ifLost: "ask anew")
      } catch {
        if let requests = try? HostRequests(in: directory, of: record.storeID) { try? requests.remove(made.request.id) }
        throw error
      }
    } catch {
      try? HostKey.forget(of: record.storeID, file: file)
      throw error
    }
    print(
      """
      It lets this machine become a host of the store, as \(label.printable), once, and is never shown again. On the \
      machine that the store was made on, type it at:

          protectfs host accept STORE
      """)
  }

  private func requireNoHost(_ record: KeybagRecord, _ file: PathName?) throws {
    let exists = try file.map { $0.isThere } ?? (HostKey.find(for: record.storeID) != nil)
    guard exists else { return }
    let path = file ?? HostKey.path(for: record.storeID)
    throw CommandFailure(
      .failure,
      "this machine is a host of the store already, or has asked to be: \(path); to ask anew, remove that file")
  }
}
