import ArgumentParser
import KeyManagement
import MountDaemon
import ProtectfsPolicy

/// `protectfs erase`
struct EraseCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "erase",
    abstract: "Destroy the keys of a store or of a class, and so what is encrypted under them.",
    discussion: """
      Overwrites the secret without which no keybag of this store opens, whatever protector is given, and records when \
      that was. It takes no longer for a large store than for a small one. No secret is needed to erase the whole \
      store; with --class a protector is, and the class has a new key for new files afterwards.

      Copies of the backing directory that were made before, with their own keybag, still open (not those that share \
      files by hard links), and so do exported keybags. With the device key, names stay readable. What a \
      disk keeps of overwritten blocks is out of reach.

      Examples:
        protectfs erase ~/.private
        protectfs erase --class complete ~/private
      """)

  @Option(name: .customLong("class"), help: .init("Only what is in this class.", valueName: "class"))
  var protectionClass: ProtectionClass?

  @OptionGroup var location: StoreArgument

  @OptionGroup var confirmation: Confirmation
  @OptionGroup var options: KeybagOptions

  func validate() throws {
    guard protectionClass != nil || !options.opening.isGiven else {
      throw ValidationError("To erase the whole store, no passcode or key is needed.")
    }
  }

  func run() throws {
    let owner = try location.ownerOfStore(asWhole: true)
    let backing = owner.backing.printable
    if let protectionClass {
      let letter = protectionClass.letter
      try confirmation.require("All files of class \(letter) in \(backing) will be lost for good.")
      try options.change(owner, .eraseClass(protectionClass))
      print("The keys of class \(letter) were erased; 'protectfs orphans' finds the files they opened.")
    } else {
      try confirmation.require("Everything in \(backing) will be lost for good.")
      try owner.erase(deviceKeyFile: options.deviceKey.file)
      print("The store was erased.")
    }
  }
}
