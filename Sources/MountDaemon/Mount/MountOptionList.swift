/// Why a mount option cannot be meant, in a sentence for people.
package struct MountOptionError: Error, Equatable {
  package let message: String

  init(_ message: String) {
    self.message = message
  }
}

/// The options of `-o`, sorted by whom they are for.
package struct MountOptionList: Equatable {
  package private(set) var gracePeriod: Double?
  package private(set) var lockDelay: Double?
  package private(set) var inactivityPeriod: Double?
  package private(set) var pushTimeout: Double?
  package private(set) var keepsReplacedClass: Bool?
  package private(set) var threads: Int?
  /// Processors are kept from deep sleep while requests come fast.
  package private(set) var lowersLatency: Bool?
  /// The daemon gives up the privileges that it needs no more.
  package private(set) var isConfined: Bool?
  package private(set) var isShared = false
  package private(set) var isReadOnly = false
  /// What is mounted already is to be read-only or writable; see ``isReadOnly``.
  package private(set) var isRemount = false
  package private(set) var allowsOthers = false
  /// The mount point may have something in it.
  package private(set) var coversContents = false
  package private(set) var logsPaths = false
  package private(set) var logFile: String?
  package private(set) var deviceKeyFile: String?
  /// The directory of hooks, or `off`.
  package private(set) var hooks: String?
  /// What is left for libfuse and the kernel.
  package private(set) var fuseOptions: [String] = []

  /// Sorts the options of any number of `-o`.
  ///
  /// - Throws: a sentence for an option of ours whose value cannot be meant.
  package init(_ lists: [String]) throws(MountOptionError) {
    for option in lists.flatMap(Self.split) { try take(option) }
  }

  /// What /etc/fstab says to mount(8) and systemd; nothing to us.
  private static let ignored: Set<String> = [
    "atime", "auto", "comment", "defaults", "diratime", "group", "lazytime", "_netdev", "noatime", "noauto",
    "nodiratime", "nofail", "nolazytime", "norelatime", "nostrictatime", "nouser", "owner", "relatime", "strictatime",
    "user", "users",
  ]

  private mutating func take(_ option: String) throws(MountOptionError) {
    let parts = option.unicodeScalars.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      .map(String.init)
    let value = parts.count > 1 ? parts[1] : nil
    switch parts[0] {
    case "grace": gracePeriod = try Self.seconds(option, value)
    case "lock_delay": lockDelay = try Self.seconds(option, value, upTo: 60)
    case "inactive": inactivityPeriod = try Self.seconds(option, value)
    case "push_timeout":
      let seconds = try Self.seconds(option, value, upTo: 3600)
      guard seconds >= 0.1 else { throw MountOptionError("'\(option)': give seconds, from 0.1 to 3600") }
      pushTimeout = seconds
    case "replace_class":
      guard value == "keep" || value == "move" else {
        throw MountOptionError("'\(option)': replace_class is keep or move")
      }
      keepsReplacedClass = value == "keep"
    case "threads":
      guard let count = value.flatMap({ Int($0) }), (1...256).contains(count) else {
        throw MountOptionError("'\(option)': threads is a number from 1 to 256")
      }
      threads = count
    case "latency":
      guard value == "low" || value == "system" else {
        throw MountOptionError("'\(option)': latency is low or system")
      }
      lowersLatency = value == "low"
    case "sandbox":
      guard value == "on" || value == "off" else {
        throw MountOptionError("'\(option)': sandbox is on or off")
      }
      isConfined = value == "on"
    case "log_file": logFile = try Self.path(option, value)
    case "hooks": hooks = try Self.path(option, value)
    case "device_key": deviceKeyFile = try Self.path(option, value)
    case "shared" where value == nil: isShared = true
    case "ro" where value == nil: isReadOnly = true
    case "rw" where value == nil: isReadOnly = false
    case "remount" where value == nil: isRemount = true
    case "subtype", "fsname":
      throw MountOptionError("'\(option)': by these the kernel shows a mount as one of protectfs, and commands find it")
    case "log_paths" where value == nil: logsPaths = true
    case "allow_other" where value == nil: allowsOthers = true
    case "nonempty" where value == nil: coversContents = true
    case let name where Self.ignored.contains(name) || name.hasPrefix("x-"): break
    default: fuseOptions.append(option)
    }
  }

  /// Splits at commas that no backslash stands before, as libfuse does. By code points: what combines with a comma does
  /// not make it another character.
  private static func split(_ list: String) -> [String] {
    var options = [""]
    var isEscaped = false
    for scalar in list.unicodeScalars {
      if scalar == ",", !isEscaped {
        options.append("")
        continue
      }
      isEscaped = scalar == "\\" && !isEscaped
      options[options.count - 1].unicodeScalars.append(scalar)
    }
    return options.filter { !$0.isEmpty }
  }

  private static func seconds(
    _ option: String, _ value: String?, upTo longest: Int = 86_400
  ) throws(MountOptionError) -> Double {
    guard let value, let seconds = Double(value), (0...Double(longest)).contains(seconds) else {
      throw MountOptionError("'\(option)': give seconds, from 0 to \(longest)")
    }
    return seconds
  }

  private static func path(_ option: String, _ value: String?) throws(MountOptionError) -> String {
    guard let value, !value.isEmpty else { throw MountOptionError("'\(option)': a file is missing") }
    return unescaped(value)
  }

  /// Undoes the escapes of commas and backslashes. A backslash before anything else is one.
  private static func unescaped(_ value: String) -> String {
    var text = String.UnicodeScalarView()
    var isEscaped = false
    for scalar in value.unicodeScalars {
      if scalar == "\\", !isEscaped {
        isEscaped = true
        continue
      }
      if isEscaped, scalar != ",", scalar != "\\" { text.append("\\") }
      text.append(scalar)
      isEscaped = false
    }
    if isEscaped { text.append("\\") }
    return String(text)
  }
}
