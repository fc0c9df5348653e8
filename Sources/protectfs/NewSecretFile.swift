import Cryptography
import ProtectfsIO
import SystemPackage

/// A new file that takes a secret: a recovery key, a key file or an exported keybag. Unless all is written, the file is
/// taken away again with the last reference.
final class NewSecretFile {
  let path: String
  private let file: Descriptor
  private var isWritten = false

  /// Makes the file, with mode 0600. It must not exist.
  init(path: String) throws {
    file = try naming(path) {
      try Descriptor.open(PathName(path), [.writeOnly, .create, .exclusive, .noFollow], mode: 0o600)
    }
    self.path = path
  }

  func write(_ secret: borrowing SecretBytes, newline: Bool = false) throws {
    try naming(path) {
      try unsafe secret.withBytes { (bytes) throws(Errno) in try unsafe file.write(bytes, at: 0) }
      if newline {
        try unsafe [UInt8(ascii: "\n")].withBytes { (newline) throws(Errno) in
          try unsafe file.write(newline, at: UInt64(secret.count))
        }
      }
      try file.synchronize()
    }
    isWritten = true
  }

  deinit {
    // One that stays is empty, or of no use.
    if !isWritten { try? Descriptor.open(".", [.path, .directory]).unlink(PathName(path)) }
  }
}

/// How a recovery key or a pairing code is given out: once.
enum SecretOutput {
  /// Writes it to a new file, or prints it.
  ///
  /// - Parameters:
  ///   - name: what it is called.
  ///   - advice: what to do where it is lost.
  /// - Throws: where it cannot be given out, and so is lost.
  static func show(
    _ text: borrowing SecretBytes, _ name: String, _ output: NewSecretFile?, ifLost advice: String
  ) throws {
    if let output {
      try output.write(text, newline: true)
      return print("The \(name) is in \(output.path).")
    }
    print("\n\(name.prefix(1).uppercased())\(name.dropFirst()):\n\n    ", terminator: "")
    do throws(Errno) {
      try unsafe text.withBytes { (bytes) throws(Errno) in try unsafe StandardStream.writeOutput(bytes) }
    } catch {
      throw CommandFailure(.failure, "the \(name) could not be shown (\(error)), and is lost; \(advice)")
    }
    print("\n")
  }
}

/// How a recovery key is given out.
enum RecoveryKeyOutput {
  static func show(_ text: borrowing SecretBytes, _ output: NewSecretFile?) throws {
    try SecretOutput.show(
      text, "recovery key", output,
      ifLost: "all else is done: remove it with 'protectfs key remove', and add another with 'protectfs key add "
        + "--new-recovery-key'")
    if output != nil { print() }
    print(
      """
      The recovery key opens the store without the passcode and without this machine's device key. It is kept \
      nowhere else and never shown again: write it down, and keep it apart from both.
      """)
  }
}
