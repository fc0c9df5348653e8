import ProtectfsPolicy

// How reports for people call things.

extension LockState {
  var words: String {
    switch self {
    case .beforeFirstUnlock: "locked (before first unlock)"
    case .unlocked: "unlocked"
    case .gracePeriod: "unlocked (grace period)"
    case .locked: "locked"
    case .inactive: "locked (inactive)"
    }
  }
}

extension KeyAvailability {
  var words: String {
    switch self {
    case .available: "available"
    case .revoking: "going"
    case .publicOnly: "public half"
    case .unavailable: "not in memory"
    }
  }
}

extension Double {
  /// Seconds for people, in tenths below ten.
  var seconds: String {
    if self >= 7200 { return "\(Int((self / 3600).rounded())) h" }
    let tenths = (self * 10).rounded() / 10
    return tenths < 10 && tenths != tenths.rounded() ? "\(tenths) s" : "\(Int(tenths.rounded())) s"
  }
}

extension String {
  /// The text with blanks behind it, up to a width.
  func padded(to width: Int) -> String {
    self + String(repeating: " ", count: max(0, width - count))
  }
}

extension String {
  /// The text as one word of a shell's command line. Control characters are escaped, for a terminal would obey them.
  var shellQuoted: String {
    let plain = unicodeScalars.allSatisfy { scalar in
      scalar.isASCII && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil)
        || "/._-+=:,@%".unicodeScalars.contains(scalar)
    }
    if plain, !isEmpty { return self }
    guard unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
      return "'\(replacing("'", with: #"'\''"#))'"
    }
    let escaped = unicodeScalars.map { scalar in
      switch scalar {
      case "'", "\\": "\\\(scalar)"
      case _ where scalar.properties.generalCategory == .control: "\\u" + String(scalar.value, radix: 16).leftPadded
      default: "\(scalar)"
      }
    }
    return "$'\(escaped.joined())'"
  }

  private var leftPadded: String { String(repeating: "0", count: max(0, 4 - count)) + self }
}

extension UInt64 {
  /// An amount of data for people, in tenths below ten.
  var bytes: String {
    guard self >= 1000 else { return self == 1 ? "1 byte" : "\(self) bytes" }
    var (value, units) = (Double(self) / 1000, ["kB", "MB", "GB", "TB", "PB", "EB"][...])
    while value >= 999.5, units.count > 1 {
      value /= 1000
      units.removeFirst()
    }
    let tenths = (value * 10).rounded() / 10
    return tenths < 10 ? "\(tenths) \(units.first!)" : "\(Int(value.rounded())) \(units.first!)"
  }
}

extension Int {
  /// A number of files for people.
  var files: String { self == 1 ? "1 file" : "\(self) files" }

  /// A number of programs that hold a lock back, for people.
  var clients: String { self == 1 ? "1 client that delays the lock" : "\(self) clients that delay the lock" }
}
