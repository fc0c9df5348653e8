import FUSE
import KeyManagement
import MountDaemon
import ProtectfsClient
import ProtectfsIO

/// What to type where something failed: libraries say what is wrong, the command what can be done about it.
enum Advice {
  private static let restoration =
    "; 'protectfs keybag restore' puts the one before it, .protectfs/keybag.previous, in its place"

  private static let memory =
    ". Raise that limit, for a service with 'systemctl set-property UNIT MemoryMax=SIZE'; a recovery key or a key file "
    + "unlocks with less"

  /// What follows the sentence of an error; empty where it says all.
  static func about(_ error: KeyManagementError) -> String {
    switch error {
    case .keybagMissing, .keybagMalformed, .keybagAltered: restoration
    case .effaceableSecretMissing:
      "; 'protectfs keybag restore' puts the second copy in its place if its secret is there; else bring that file back "
        + "from the copy that the keybag is from, or, last of all, use an exported keybag"
    case .keybagInUse: "; try again, and if that fails, 'lslocks' shows who holds .protectfs/keybag or keybag.new"
    case .keyFileMalformed: "; make one with 'protectfs key add'"
    case .noSuchProtector: "; 'protectfs key list' shows those it has"
    case .severalPasscodes:
      ": remove it with 'protectfs key remove', and add another with 'protectfs key add --new-passcode'"
    case .hostUnknown:
      ": it was removed, or not accepted yet; give the code of 'protectfs host add' to 'protectfs host accept' where the "
        + "store was made, or ask anew"
    case .hostsChangeNothing: "; do that where the store was made"
    case .noSuchRequest: "; 'protectfs host list' shows those that ask"
    case .notABackup: "; 'protectfs keybag export' makes one that can be imported"
    case .tooLittleMemory: memory
    default: ""
    }
  }

  /// The same of a daemon's answer, whose message is the sentence of its error.
  static func about(_ error: ControlError) -> String {
    let errors: [KeyManagementError] = [
      .keybagMissing, .keybagInUse, .keybagAltered, .effaceableSecretMissing, .keyFileMalformed, .noSuchProtector,
      .severalPasscodes, .hostUnknown, .hostsChangeNothing, .noSuchRequest,
    ]
    if error.code == .tooLittleMemory { return memory }
    if let known = errors.first(where: { $0.description == error.message }) { return about(known) }
    // Its sentence has the damage in it.
    return error.code == .keybagCorrupt && error.message.hasPrefix("the keybag is damaged (") ? restoration : ""
  }

  static func about(_ error: SessionError) -> String {
    guard error == .notMounted, Process.identity.user != 0, let helper = Process.onPath("fusermount3"),
      let status = try? Descriptor.open(helper, [.path]).status(), status.mode & 0o4000 == 0
    else { return "" }
    return ". \(helper) has lost its set-user-ID bit, with which users mount; as root: chmod u+s \(helper)"
  }

  static func about(_ error: StoreError) -> String {
    switch error {
    case .noStore(let path):
      if let mount = try? MountedFileSystem.containing(path) {
        "; the store that is mounted there is in \(mount.backing.shellQuoted)"
      } else {
        "; make one with 'protectfs init \(path)'"
      }
    case .alreadyAStore(let path): "; mount it with 'protectfs mount \(path) MOUNTPOINT'"
    case .inUse, .written: "; beside it a store can only be mounted with '-o ro'"
    case .noLocks, .readOnlyFileSystem: "; mount it with '-o ro'"
    case .noRootRecord: "; copy it again with them: 'rsync -aX', 'cp -a' or 'tar --xattrs'"
    default: ""
    }
  }
}
