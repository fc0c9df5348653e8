import ProtectfsIO

/// Why a mount option cannot be meant, in a sentence for people.
package struct MountOptionError: Error, Equatable {
  package let message: String

  init(_ message: String) {
    self.message = message
  }
}

/// The options of `-o`, sorted by whom they are for.
package struct MountOptionList: Equatable {
  /// How the store is mounted, but for its two directories.
  package private(set) var mount = MountOptions(backing: "", mountPoint: "")
  /// What is mounted already is to be read-only or writable.
  package private(set) var isRemount = false
  /// The mount point may have something in it.
  package private(set) var coversContents = false
  package private(set) var logFile: String?
  package private(set) var deviceKeyFile: String?
  /// The directory of hooks, or `off`.
  package private(set) var hooks: String?

  /// Sorts the options of any number of `-o`.
  ///
  /// - Throws: a sentence for an option of ours whose value cannot be meant.
  package init(_ lists: [String]) throws(MountOptionError) {
    for option in lists.flatMap(Self.split) { try take(option) }
  }

  /// What /etc/fstab says to mount(8) and systemd, or to every file system; nothing to us.
  private static let ignored: Set<String> = [
    "atime", "auto", "comment", "defaults", "diratime", "group", "iversion", "lazytime", "loud", "mand", "_netdev",
    "noatime", "noauto", "nodiratime", "nofail", "noiversion", "nolazytime", "nomand", "norelatime", "nostrictatime",
    "nouser", "owner", "relatime", "silent", "strictatime", "user", "users",
  ]

  private mutating func take(_ option: String) throws(MountOptionError) {
    let parts = option.unicodeScalars.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      .map(String.init)
    let value = parts.count > 1 ? parts[1] : nil
    switch parts[0] {
    case "grace": mount.gracePeriod = try Self.seconds(option, value)
    case "lock_delay": mount.lockDelay = try Self.seconds(option, value, upTo: 60)
    case "inactive": mount.inactivityPeriod = try Self.seconds(option, value)
    case "at_rest": mount.restPeriod = try Self.restPeriod(option, value)
    case "push_timeout":
      mount.pushTimeout = try Self.seconds(option, value, upTo: 3600)
      guard mount.pushTimeout >= .milliseconds(100) else {
        throw MountOptionError("'\(option)': give seconds, from 0.1 to 3600")
      }
    case "replace_class": mount.keepsReplacedClass = try Self.choice(option, value, "keep", "move")
    case "remove_locked" where value == nil: mount.keepsLocked = false
    case "threads":
      guard let count = value.flatMap({ Int($0) }), (1...256).contains(count) else {
        throw MountOptionError("'\(option)': threads is a number from 1 to 256")
      }
      mount.threads = count
    case "latency":
      mount.latency = try Self.choice(option, value, ["auto": .automatic, "low": .low, "system": .system])
    case "transport":
      mount.transport = try Self.choice(option, value, ["auto": nil, "device": .device, "io_uring": .ioUring])
    case "sandbox": mount.isConfined = try Self.choice(option, value, "on", "off")
    case "log_file": logFile = try Self.path(option, value)
    case "hooks": hooks = try Self.path(option, value)
    case "device_key": deviceKeyFile = try Self.path(option, value)
    case "standby" where value == nil: mount.isStandby = true
    case "isolation":
      mount.isolation = value == "off" ? nil : try Self.seconds(option, value)
      guard mount.isolation ?? .seconds(3) >= .seconds(3) else {
        throw MountOptionError("'\(option)': give seconds, from 3 to 86400, or off")
      }
    case "shared" where value == nil: mount.isShared = true
    case "ro" where value == nil: mount.isReadOnly = true
    case "rw" where value == nil: mount.isReadOnly = false
    case "remount" where value == nil: isRemount = true
    case "subtype", "fsname":
      throw MountOptionError("'\(option)': by these the kernel shows a mount as one of protectfs, and commands find it")
    case "log_paths" where value == nil: mount.logsPaths = true
    case "allow_other" where value == nil: mount.allowsOthers = true
    case "nonempty" where value == nil: coversContents = true
    case let name where Self.ignored.contains(name) || name.hasPrefix("x-") || name.hasPrefix("X-"): break
    default: mount.fuseOptions.append(option)
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
  ) throws(MountOptionError) -> Duration {
    guard let value, let seconds = Double(value), (0...Double(longest)).contains(seconds) else {
      throw MountOptionError("'\(option)': give seconds, from 0 to \(longest)")
    }
    return .seconds(seconds)
  }

  /// A time as `72h`.
  private static func restPeriod(_ option: String, _ value: String?) throws(MountOptionError) -> Duration? {
    if value == "off" { return nil }
    let units: [Character: Int] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
    guard let value, let unit = value.last.flatMap({ units[$0] }),
      let count = Int(value.dropLast()), (0...longestRest).contains(count), count * unit <= longestRest,
      count * unit >= shortestRest
    else {
      throw MountOptionError("'\(option)': give a time from 10m to 30d, with s, m, h or d behind the number, or off")
    }
    return .seconds(count * unit)
  }

  private static let longestRest = 30 * 86_400
  #if DEBUG
    /// Tests of mounts do not wait for so long.
    private static var shortestRest: Int { Process.environment("PROTECTFS_TEST_SHORT_REST") == nil ? 600 : 1 }
  #else
    private static let shortestRest = 600
  #endif

  /// Whether the value is the first of two words.
  private static func choice(
    _ option: String, _ value: String?, _ first: String, _ second: String
  ) throws(MountOptionError) -> Bool {
    try choice(option, value, [first: true, second: false])
  }

  /// What one of several words stands for.
  private static func choice<Meaning>(
    _ option: String, _ value: String?, _ meanings: KeyValuePairs<String, Meaning>
  ) throws(MountOptionError) -> Meaning {
    if let meaning = meanings.first(where: { $0.key == value }) { return meaning.value }
    let words = meanings.map(\.key)
    let list = words.dropLast().joined(separator: ", ") + " or \(words.last ?? "")"
    throw MountOptionError("'\(option)': \(option.prefix { $0 != "=" }) is \(list)")
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
