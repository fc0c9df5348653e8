import Cryptography
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Where a passcode, a recovery key or a key file comes from.
enum SecretSource {
  /// The options that can be given where there is none.
  case terminal(instead: String)
  case file(String)
  case descriptor(Int32)
  /// What a command of the user's prints, run with sh(1).
  case command(String)
  /// A credential of the service (systemd.exec(5), `LoadCredential=`).
  case credential(String)

  /// Where options say that a passcode or a recovery key comes from; `nil` where they do not.
  init?(file: String?, descriptor: Int32? = nil, command: String? = nil) {
    if let file {
      self = file == "-" ? .descriptor(0) : .file(file)
    } else if let descriptor {
      self = .descriptor(descriptor)
    } else if let command {
      self = .command(command)
    } else {
      return nil
    }
  }

  /// Reads a passcode or a recovery key: UTF-8, not empty, without the newline at its end.
  ///
  /// - Parameters:
  ///   - name: what is asked for, as in "Passcode".
  ///   - files: whether it may come from a file that others can read.
  func read(_ name: String, _ files: SecretFileOptions) throws -> SecretBytes {
    // One byte more for the newline.
    let secret = try readToEnd(name, limit: Keybag.longestPasscode + 1, files)
    let endsInNewline = unsafe secret.withBytes { unsafe $0.last == UInt8(ascii: "\n") }
    let text = secret.prefix(secret.count - (endsInNewline ? 1 : 0))
    let failing: String? =
      switch text.count {
      case 0: "empty"
      case (Keybag.longestPasscode + 1)...: "longer than \(Keybag.longestPasscode) bytes"
      default: unsafe text.withBytes { unsafe isUTF8($0) } ? nil : "not UTF-8 text"
      }
    if let failing { throw CommandFailure(.failure, "the \(name.lowercased()) is \(failing)") }
    return text
  }

  /// Reads a new passcode: from a terminal twice. One that is guessed quickly is taken where that is allowed, or typed
  /// once more in spite of the warning.
  ///
  /// - Parameter options: `nil` for a passcode that is one already, of the user's logins.
  func readNew(
    _ name: String, _ files: SecretFileOptions, _ options: NewPasscodeOptions?,
    _ limit: PasscodeStrength.Limit = .deviceKey
  ) throws -> SecretBytes {
    var secret = try read(name, files)
    while options?.allowWeak == false, let weakness = PasscodeStrength(secret).weakness(limit) {
      guard case .terminal = self else {
        throw CommandFailure(.failure, "\(weakness). Give a longer one, or --allow-weak")
      }
      CommandFailure.report("\(weakness). Type a longer one, or the same again to take it")
      let next = try read(name, files)
      if next == secret { return secret }
      secret = next
    }
    guard case .terminal = self else { return secret }
    guard try secret == readToEnd("\(name) again", limit: Keybag.longestPasscode + 1, files) else {
      throw CommandFailure(.failure, "the two are not the same; nothing was changed")
    }
    return secret
  }

  /// Reads the content of a key file.
  func readKeyFile(_ files: SecretFileOptions) throws -> SecretBytes {
    let content = try readToEnd("Key file", limit: KeyFile.lengths.upperBound, files)
    guard KeyFile.lengths.contains(content.count) else { throw KeyManagementError.keyFileMalformed }
    return content
  }

  /// Reads all that there is, and one byte more than the limit where it is longer.
  private func readToEnd(_ name: String, limit: Int, _ files: SecretFileOptions) throws -> SecretBytes {
    switch self {
    case .terminal(let options): return try Self.readTyped(name, limit, orFrom: options)
    case .file(let path): return try Self.readToEnd(files.open(path), path, limit)
    case .descriptor(let number):
      let name = number == 0 ? "standard input" : "descriptor \(number)"
      return try Self.readToEnd(naming(name) { try Descriptor(duplicating: number) }, name, limit)
    case .command(let command):
      guard let child = try? ChildProcess("/bin/sh", ["-c", command], .inherited) else {
        throw CommandFailure(.failure, "/bin/sh could not be started")
      }
      let secret = try Self.readToEnd(child.output.descriptor, "the output of '\(command)'", limit)
      guard child.reap() == .exited(0) else {
        throw CommandFailure(.failure, "'\(command)' failed, so there is no passcode")
      }
      return secret
    case .credential(let name):
      guard let directory = Process.environment("CREDENTIALS_DIRECTORY") else {
        throw CommandFailure(
          .failure, "there is no $CREDENTIALS_DIRECTORY; systemd sets it for services with LoadCredential=")
      }
      guard !name.contains("/") else { throw CommandFailure(.failure, "'\(name)' is not the name of a credential") }
      let path = "\(directory)/\(name)"
      return try Self.readToEnd(files.open(path), path, limit)
    }
  }

  private static func readTyped(
    _ name: String, _ limit: Int, orFrom options: String
  ) throws(CommandFailure) -> SecretBytes {
    guard let terminal = Terminal() else {
      throw CommandFailure(.failure, "there is no terminal to ask for the \(name.lowercased()); use \(options)")
    }
    var secret = SecretBytes(count: limit)
    do throws(Errno) {
      let count = try unsafe secret.withMutableBytes { (buffer) throws(Errno) in
        try unsafe terminal.readSecret("\(name): ", into: buffer)
      }
      if let count { return secret.prefix(count) }
    } catch {
      let isTooLong = error == .messageTooLong
      throw CommandFailure(
        .failure,
        isTooLong ? "what was entered is too long" : "the terminal cannot be read without showing what is typed")
    }
    throw CommandFailure(.failure, "nothing was entered")
  }

  private static func readToEnd(
    _ descriptor: borrowing Descriptor, _ name: String, _ limit: Int
  ) throws -> SecretBytes {
    var secret = SecretBytes(count: limit + 1)
    let count = try naming(name) {
      try unsafe secret.withMutableBytes { (buffer) throws(Errno) in try unsafe descriptor.readToEnd(into: buffer) }
    }
    return secret.prefix(count)
  }
}
