import ArgumentParser
import ProtectfsIO

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

  /// Opens a file with a secret in it. A regular file that others than its owner can use is refused, as ssh(1) does
  /// with keys. Who hands a descriptor over, as `/dev/fd/N` or a pipe, has opened it for this; and who may read a
  /// credential is for systemd to see to.
  func open(_ path: String) throws -> Descriptor {
    let file = try naming(path) { try Descriptor.open(PathName(path), [.readOnly]) }
    let status = try naming(path) { try file.status() }
    guard takesExposed || status.type != .regular || Self.isHandedOver(path) || status.permissions & 0o077 == 0 else {
      throw CommandFailure(
        .notPermitted,
        "others can use \(path.printable), which has a secret in it; it must have mode 0600 or less, or say "
          + "--insecure-file")
    }
    return file
  }

  private static func isHandedOver(_ path: String) -> Bool {
    let credentials = Process.environment("CREDENTIALS_DIRECTORY").map { $0 + "/" }
    return path == "/dev/stdin"
      || ["/dev/fd/", "/proc/self/fd/", credentials].compactMap(\.self).contains(where: path.hasPrefix)
  }
}
