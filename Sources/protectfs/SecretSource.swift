import Cryptography
import KeyManagement
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// Where a passcode or a recovery key comes from.
enum SecretSource {
  case terminal
  /// A file, or standard input for `-`.
  case file(String)
  case descriptor(Int32)
  /// What a command prints.
  case command(String)

  /// Where options say that it comes from; a terminal, where none does.
  init(file: String?, descriptor: Int32?, command: String? = nil) {
    if let file {
      self = .file(file)
    } else if let descriptor {
      self = .descriptor(descriptor)
    } else if let command {
      self = .command(command)
    } else {
      self = .terminal
    }
  }

  /// Reads the secret: UTF-8, not empty, without the newline at its end.
  ///
  /// - Parameters:
  ///   - name: what is asked for, as in "Passcode".
  ///   - files: whether it may come from a file that others can read.
  func read(_ name: String, _ files: SecretFileOptions) throws(CommandFailure) -> SecretBytes {
    switch self {
    case .terminal:
      return try Self.checked(try Self.openTerminal(name).readSecret(prompt: "\(name): "), name)
    case .file("-"):
      return try Self.checked(try Self.readToEnd(0, "standard input"), name)
    case .file(let path):
      let file = try files.open(path)
      return try Self.checked(try Self.readToEnd(file, path), name)
    case .descriptor(let number):
      return try Self.checked(try Self.readToEnd(number, "descriptor \(number)"), name)
    case .command(let command):
      return try Self.checked(try ShellCommand.output(of: command), name)
    }
  }

  /// Reads a new passcode: from a terminal twice.
  func readNew(_ name: String, _ files: SecretFileOptions) throws(CommandFailure) -> SecretBytes {
    let secret = try read(name, files)
    guard case .terminal = self else { return secret }
    let again = try Self.openTerminal(name).readSecret(prompt: "\(name) again: ")
    guard secret == again else { throw CommandFailure(.failure, "the two are not the same; nothing was changed") }
    return secret
  }

  private static func openTerminal(_ name: String) throws(CommandFailure) -> Terminal {
    guard let terminal = Terminal() else {
      let options = "--passcode-file, --passcode-fd or --passcode-command"
      throw CommandFailure(.failure, "there is no terminal to ask for the \(name.lowercased()); use \(options)")
    }
    return terminal
  }

  /// Reads a descriptor to its end, into memory that is wiped.
  static func readToEnd(_ descriptor: borrowing Descriptor, _ name: String) throws(CommandFailure) -> SecretBytes {
    // One byte for the newline, and one to notice what is too long.
    var secret = SecretBytes(count: Keybag.longestPasscode + 2)
    do throws(Errno) {
      let count = try unsafe secret.withMutableBytes { (buffer) throws(Errno) in
        try unsafe descriptor.readToEnd(into: buffer)
      }
      return secret.prefix(count)
    } catch {
      throw CommandFailure(name, error)
    }
  }

  private static func readToEnd(_ number: Int32, _ name: String) throws(CommandFailure) -> SecretBytes {
    let descriptor: Descriptor
    do throws(Errno) { descriptor = try Descriptor(duplicating: number) } catch { throw CommandFailure(name, error) }
    return try readToEnd(descriptor, name)
  }

  private static func checked(_ secret: consuming SecretBytes, _ name: String) throws(CommandFailure) -> SecretBytes {
    let endsInNewline = unsafe secret.withBytes { unsafe $0.last == UInt8(ascii: "\n") }
    let text = secret.prefix(secret.count - (endsInNewline ? 1 : 0))
    guard text.count > 0 else { throw CommandFailure(.failure, "the \(name.lowercased()) is empty") }
    guard text.count <= Keybag.longestPasscode else {
      throw CommandFailure(.failure, "the \(name.lowercased()) is longer than \(Keybag.longestPasscode) bytes")
    }
    let isText = unsafe text.withBytes { unsafe isUTF8($0) }
    guard isText else { throw CommandFailure(.failure, "the \(name.lowercased()) is not UTF-8 text") }
    return text
  }
}
