import ArgumentParser
import MountDaemon

/// `protectfs info`
struct InfoCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "info",
    abstract: "Show what a store says of itself, without any secret.",
    discussion: """
      Reads the keybag: format, classes and their keys, the protectors, and how the passcode is stretched. With the \
      device key at hand, it says whether the keybag is authentic.

      Example:
        protectfs info ~/.private
      """)

  @Argument(help: .init("The directory of ciphertext.", valueName: "backing"), completion: .directory)
  var backing: String

  @OptionGroup var deviceKey: DeviceKeyOptions

  @Flag(help: "Report in JSON.")
  var json = false

  func run() throws {
    let information = try StoreInformation(CanonicalPath.ofBacking(backing), deviceKeyFile: deviceKey.file)
    if json { try JSONOutput.show(information) } else { print(information.report) }
  }
}

extension StoreInformation {
  /// The report for people.
  fileprivate var report: String {
    var lines = ["\(backing.printable): a store of protectfs, format \(formatVersion)"]
    func line(_ name: String, _ value: String) { lines.append("  \(name.padded(to: 13)) \(value)") }
    line("store", storeID)
    line("created", created)
    line("default class", "\(defaultClass.name) (\(defaultClass.letter))")
    line("keybag", "generation \(keybagGeneration), \(verdict)")
    line("contents", "\(authenticatesContents ? "AES-256-GCM" : "AES-256-XTS"), a key for each file")
    line("names", "AES-256-SIV")
    if let erased { line("ERASED", "on \(erased); what was in it cannot be read any more") }
    if pendingRekeys > 0 { line("rekeys", "pending for \(pendingRekeys.files); they go on after an unlock") }
    if let eraseAfter { line("erases itself", "after \(eraseAfter) wrong passcodes") }
    for way in waysIn {
      let label = way.label == way.kind ? "" : " '\(way.label.printable)'"
      line("protector", "\(way.kind)\(label)\(way.keyDerivation.map { ", \($0)" } ?? "")")
    }
    for entry in classes {
      let key = entry.keys.isEmpty ? "no key" : "key \(entry.keys.joined(separator: ", "))"
      line("class \(entry.protectionClass.letter)", "\(entry.protectionClass.name), \(key)")
    }
    return lines.joined(separator: "\n")
  }

  private var verdict: String {
    switch authenticity {
    case .authentic: "authentic"
    case .altered: "ALTERED or damaged; the one before it is .protectfs/keybag.previous"
    case .foreignDeviceKey: "not checked: this machine's device key is another's"
    case .noDeviceKey: "not checked: there is no device key here"
    }
  }
}
