import ArgumentParser
import MountDaemon
import ProtectfsIO

/// How a new store has the contents of files.
struct ContentsOptions: ParsableArguments {
  @Flag(
    help: """
      Authenticate the contents of files: what was changed in the backing directory is an error when it is read, and \
      no garbage. Writing takes longer. It cannot be changed later; 'restore --from' copies into another store.
      """)
  var authenticated = false

  /// Prints a warning where the disk of a store may leave pages unreadable.
  func warn(of backing: String) throws {
    guard authenticated, try BackingMedium(of: Store.open(backing)).mayTear(4096) else { return }
    print(
      "Its disk says that it does not write 4096 bytes as a whole: after a power cut, what was being written may be "
        + "unreadable, and is then to be restored from a backup.")
  }
}
