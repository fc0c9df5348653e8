import ArgumentParser
import ProtectfsIO

/// Asks before something is destroyed.
struct Confirmation: ParsableArguments {
  @Flag(help: "Do not ask.")
  var yes = false

  /// Has the user type a word, unless `--yes` was given.
  ///
  /// - Throws: when another word was typed, or there is no terminal to ask at.
  func require(_ warning: String) throws(CommandFailure) {
    guard !yes else { return }
    guard let terminal = Terminal() else {
      throw CommandFailure(
        .failure, "there is no terminal to ask at; with --yes it is done without asking. \(warning)")
    }
    let answer = terminal.ask("\(warning)\nType 'yes' to go on: ")
    guard answer == "yes" else { throw CommandFailure(.failure, "nothing was changed") }
  }
}
