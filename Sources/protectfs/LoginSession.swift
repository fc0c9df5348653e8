import Cryptography
import ProtectfsIO
import SystemPackage

/// A session of this user that su(1) opens and closes. PAM checks the passcode as at a login, and what is on for logins
/// is mounted and unlocked with it.
enum LoginSession {
  /// Opens a session. Returns what was printed then.
  ///
  /// - Throws: `wrongSecret` if the passcode is not that of the user's logins; why it cannot be tried.
  @discardableResult
  static func open(with passcode: borrowing SecretBytes) throws(CommandFailure) -> String {
    guard let name = Process.userName else {
      throw CommandFailure(.failure, "the password database has no user \(Process.identity.user)")
    }
    let line = SecretBytes(passcode, followedBy: SecretBytes([UInt8(ascii: "\n")]))
    let result: (ending: ChildProcess.Ending?, output: String, hasReadInput: Bool)
    do throws(Errno) {
      result = try unsafe line.withBytes { (bytes) throws(Errno) in
        try unsafe ChildProcess.run(program, ["--command", "true", "--", name], input: bytes)
      }
    } catch {
      throw CommandFailure(.failure, "su(1), which tries the login passcode, cannot be run: \(error)")
    }
    guard result.ending != .exited(0) else {
      guard result.hasReadInput else {
        throw CommandFailure(
          .failure, "su(1) opened a session without a passcode, by a fingerprint perhaps, so it cannot be tried")
      }
      return result.output
    }
    // Behind its prompt.
    let said = result.output.split(separator: "\n").last?.split(separator: ": ").last ?? "no reason is given"
    // It ends with 1 where PAM refuses.
    throw CommandFailure(
      result.ending == .exited(1) ? .wrongSecret : .failure,
      "that does not open a session of \(name.printable) (su: \(said.description.printable))")
  }

  /// Not one that the user's search path has first: it gets the passcode.
  private static var program: String {
    ["/usr/bin/su", "/bin/su"].first { PathName($0).isThere } ?? "su"
  }
}
