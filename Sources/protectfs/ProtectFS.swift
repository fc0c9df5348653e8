import ArgumentParser
import MountDaemon

/// The command line.
struct ProtectFS: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "protectfs",
    abstract: "iOS Data Protection for Linux: a directory in which every file has a protection class.",
    discussion: """
      A backing directory holds the ciphertext. Mounted, it is an ordinary directory in which each file is encrypted \
      under a key of its own, and its class says when it can be used:

        A   complete                  while unlocked
        B   completeUnlessOpen        as A, but open files can still be used
                                      and new ones be written while locked
        C   completeUntilFirstUserAuthentication
                                      from first unlock to unmount (default)
        D   none                      always
        CX  completeWhenUserInactive  while unlocked and for 10 minutes more

      Examples:
        protectfs init ~/.private
        protectfs mount --unlock ~/.private ~/private
        protectfs class set complete ~/private/diary
        protectfs lock --now ~/private
        protectfs unlock ~/private
        protectfs unmount ~/private

      Exit status: 0 done, 64 wrong usage, others as protectfs(1) lists them.
      """,
    version: "protectfs \(protectfsVersion)",
    subcommands: [
      InitCommand.self, MountCommand.self, UnmountCommand.self, UnlockCommand.self, LockCommand.self,
      StatusCommand.self, ClassCommand.self, PasscodeCommand.self, KeyCommand.self, KeybagCommand.self,
      RotateCommand.self, EraseCommand.self, OrphansCommand.self, RestoreCommand.self, DeviceKeyCommand.self,
      EventsCommand.self, HooksCommand.self, SessionCommand.self, LoginCommand.self, ManifestCommand.self,
      InfoCommand.self, FsckCommand.self, DoctorCommand.self, HostCommand.self, TakeoverCommand.self,
    ])
}
