import ArgumentParser
import Cryptography

/// The option of commands that take a new passcode.
struct NewPasscodeOptions: ParsableArguments {
  @Flag(help: "Take a new passcode that is guessed quickly; where it is typed, typing it once more does.")
  var allowWeak = false
}

/// How soon a passcode is guessed: from its length and the kinds of its characters, as who knows nothing else of it
/// would try. A word, a name or a date is guessed sooner.
struct PasscodeStrength {
  /// What limits who guesses.
  enum Limit {
    /// The device key, without which nothing can be tried.
    case deviceKey
    /// The TPM, which counts wrong ones.
    case tpm
    /// Nothing: an exported keybag opens on any machine.
    case nothing
  }

  /// How many passcodes are like it.
  let candidates: Double

  init(_ passcode: borrowing SecretBytes) {
    var kinds: Set<Kind> = []
    var (length, last, step): (Int, Int?, Int?) = (0, nil, nil)
    unsafe passcode.withBytes { bytes in
      for index in bytes.indices {
        let byte = unsafe bytes[index]
        // Each character of UTF-8 has one byte that does not continue another (RFC 3629).
        guard byte & 0xc0 != 0x80 else { continue }
        // Of which character it is the first, it does not say.
        if byte >= 0x80 {
          kinds.insert(.beyondASCII)
          length += 1
          (last, step) = (nil, nil)
          continue
        }
        kinds.insert(Kind(byte))
        let newStep = last.map { Int(byte) - $0 }
        // What repeats or counts on adds nothing: 1111, 1234.
        if newStep == nil || newStep != step && newStep != 0 { length += 1 }
        (last, step) = (Int(byte), newStep.flatMap { abs($0) <= 1 ? $0 : nil })
      }
    }
    let letters = kinds.map(\.count).reduce(0, +)
    candidates = (0..<length).reduce(1) { count, _ in count * letters }
  }

  /// What is said of it; `nil` where it is strong enough.
  func weakness(_ limit: Limit) -> String? {
    guard candidates < (limit == .tpm ? Self.fewest : Self.enough) else { return nil }
    let number = candidates < 1000 ? "\(Int(candidates))" : Self.rounded(candidates)
    let without =
      switch limit {
      case .deviceKey: "; without the device key it cannot be guessed"
      case .tpm: "; the TPM delays more than a few tries"
      case .nothing: ", with nothing but the exported keybag"
      }
    let who = limit == .nothing ? "whoever has the file" : "whoever has the backing directory and the device key"
    return "a passcode like this is one of \(number): \(who) guesses it within "
      + "\((candidates / Self.guessesPerSecond).duration)\(without)"
  }

  /// At the least cost of scrypt(RFC 7914) in a keybag, 64 MiB and a tenth of a second: a hundred processors.
  private static let guessesPerSecond = 1000.0
  /// A day of guessing.
  private static let enough = guessesPerSecond * 86_400
  /// Where a TPM takes a few guesses and then one in minutes.
  private static let fewest = 10_000.0

  private static func rounded(_ number: Double) -> String {
    number < 1e6 ? "\(Int(number / 1000)) thousand" : "\(Int(number / 1e6)) million"
  }

  /// A kind of characters, as one who guesses tries all of a kind.
  private enum Kind: Hashable {
    case digit, lower, upper, other, beyondASCII

    init(_ byte: UInt8) {
      self =
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): .digit
        case UInt8(ascii: "a")...UInt8(ascii: "z"): .lower
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): .upper
        default: .other
        }
    }

    var count: Double {
      switch self {
      case .digit: 10
      case .lower, .upper: 26
      case .other: 33
      case .beyondASCII: 100
      }
    }
  }
}

extension Double {
  /// A time for people, rounded up to whole units.
  fileprivate var duration: String {
    let units: [(String, Double)] = [("hour", 3600), ("minute", 60), ("second", 1)]
    let (name, length) = units.first { self > $0.1 } ?? ("second", 1)
    let count = max(1, Int((self / length).rounded(.up)))
    return "\(count) \(name)\(count == 1 ? "" : "s")"
  }
}
