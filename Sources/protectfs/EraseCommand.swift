import ArgumentParser
import KeyManagement
import MountDaemon
import ProtectfsClient
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

      Copies of the backing directory that were made before, with their own keybag, still open, and so do exported \
      keybags. With the device key, names stay readable. What a disk keeps of overwritten blocks is out of reach.

      Examples:
        protectfs erase ~/.private
        protectfs erase --class complete ~/private
      """)

  @Option(
    name: .customLong("class"), help: ArgumentHelp("Only what is in this class.", valueName: "class"))
  var protectionClass: ProtectionClass?

  @OptionGroup var location: StoreArgument

  @Flag(help: "Do not ask.")
  var yes = false

  @OptionGroup var opening: OpeningOptions

  @OptionGroup var deviceKey: DeviceKeyOptions

  func validate() throws {
    guard protectionClass != nil || !opening.isGiven else {
      throw ValidationError("To erase the whole store, no passcode or key is needed.")
    }
  }

  func run() throws {
    let owner = try StoreOwner.ofWhole(location.path)
    try StoreSummary.requireStore(owner.backing)
    if let protectionClass {
      try Confirmation.require(
        "All files of class \(protectionClass.letter) in \(owner.backing.printable) will be lost for good.",
        isGiven: yes)
      try erase(protectionClass, owner)
      print("The keys of class \(protectionClass.letter) were erased; 'protectfs orphans' finds the files they opened.")
    } else {
      try Confirmation.require(
        "Everything in \(owner.backing.printable) will be lost for good.", isGiven: yes)
      try eraseAll(owner)
      print("The store was erased.")
    }
  }

  private func erase(_ protectionClass: ProtectionClass, _ owner: StoreOwner) throws {
    try unsafe owner.change(with: opening.read(), deviceKeyFile: deviceKey.file, here: .eraseClass(protectionClass)) {
      (daemon, secret) throws(ControlError) in
      try unsafe daemon.erase(protectionClass, with: secret)
    }
  }

  private func eraseAll(_ owner: StoreOwner) throws {
    switch owner {
    case .daemon(let mount):
      var daemon = try DaemonConnection(to: mount)
      try daemon.eraseStore()
    case .nobody(let path):
      let store = try UnmountedStore(path, deviceKeyFile: deviceKey.file)
      // One that was cut short is finished.
      if store.keybag.erasureTime != nil { try store.file.repair(store.keybag, deviceKey: store.deviceKey) }
      if let time = store.keybag.erasureTime { throw KeyManagementError.storeErased(at: time) }
      if let failure = try store.file.erase(store.keybag, deviceKey: store.deviceKey).failure { throw failure }
    }
  }
}
