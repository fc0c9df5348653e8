import ArgumentParser
import ProtectfsIO
import SystemPackage

/// Whether passcodes, keys and recovery keys are taken from files that others can read.
struct SecretFileOptions: ParsableArguments {
  @Flag(
    name: .customLong("insecure-file"),
    help: """
      Take a passcode, a recovery key or a key file also from a file that its group or others may use. Without this \
      such a file is refused, unless it is a pipe, a socket or a credential of systemd, or was handed over open, as \
      /dev/fd/3.
      """)
  var takesExposed = false

  /// Opens a file with a secret in it, unless others can read that.
  func open(_ path: String) throws(CommandFailure) -> Descriptor {
    do throws(Errno) {
      let file = try Descriptor.open(PathName(path), [.readOnly])
      try require(file, path)
      return file
    } catch {
      throw failure(path, error)
    }
  }

  /// Refuses a regular file that others than its owner can use, as ssh(1) does with keys. Who hands a descriptor over, as
  /// `/dev/fd/N` or a pipe, has opened it for this; and who may read a credential is for systemd to see to.
  ///
  /// - Throws: `EPERM`.
  func require(_ file: borrowing Descriptor, _ path: String) throws(Errno) {
    let status = try file.status()
    guard !takesExposed, status.type == .regular, !Self.isHandedOver(path) else { return }
    guard status.permissions & 0o077 == 0 else { throw .notPermitted }
  }

  /// What to say when a file was not opened, or was refused.
  func failure(_ path: String, _ error: Errno) -> CommandFailure {
    guard error == .notPermitted else { return CommandFailure(path, error) }
    return CommandFailure(
      .notPermitted,
      "others can use \(path.printable), which has a secret in it; it must have mode 0600 or less, or say --insecure-file"
    )
  }

  private static func isHandedOver(_ path: String) -> Bool {
    let credentials = Process.environment("CREDENTIALS_DIRECTORY").map { $0 + "/" }
    return path == "/dev/stdin"
      || ["/dev/fd/", "/proc/self/fd/", credentials].compactMap(\.self).contains(where: path.hasPrefix)
  }
}
