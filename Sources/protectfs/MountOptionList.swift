import MountDaemon

/// The options of `-o`, sorted by whom they are for.
struct MountOptionList: Equatable {
  var gracePeriod: Double?
  var inactivityPeriod: Double?
  var keepsReplacedClass: Bool?
  var threads: Int?
  /// Processors are kept from deep sleep while requests come fast.
  var lowersLatency: Bool?
  /// The daemon gives up the privileges that it needs no more.
  var isConfined: Bool?
  var isShared = false
  var isReadOnly = false
  var allowsOthers = false
  /// The mount point may have something in it.
  var coversContents = false
  var logFile: String?
  var deviceKeyFile: String?
  /// What is left for libfuse and the kernel.
  var fuseOptions: [String] = []

  /// Sorts the options of any number of `-o`.
  ///
  /// - Throws: a sentence for an option of ours whose value cannot be meant.
  init(_ lists: [String]) throws(CommandFailure) {
    for option in lists.flatMap(Self.split) { try take(option) }
  }

  /// What /etc/fstab says to mount(8) and systemd; nothing to us.
  private static let ignored: Set<String> = [
    "auto", "comment", "defaults", "group", "lazytime", "_netdev", "noatime", "noauto", "nodiratime", "nofail",
    "nolazytime", "norelatime", "nouser", "owner", "relatime", "rw", "user", "users",
  ]

  private mutating func take(_ option: String) throws(CommandFailure) {
    let parts = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let value = parts.count > 1 ? parts[1] : nil
    switch parts[0] {
    case "grace": gracePeriod = try Self.seconds(option, value)
    case "inactive": inactivityPeriod = try Self.seconds(option, value)
    case "replace_class":
      guard value == "keep" || value == "move" else {
        throw CommandFailure(.usage, "'\(option)': replace_class is keep or move")
      }
      keepsReplacedClass = value == "keep"
    case "threads":
      guard let count = value.flatMap({ Int($0) }), (1...256).contains(count) else {
        throw CommandFailure(.usage, "'\(option)': threads is a number from 1 to 256")
      }
      threads = count
    case "latency":
      guard value == "low" || value == "system" else {
        throw CommandFailure(.usage, "'\(option)': latency is low or system")
      }
      lowersLatency = value == "low"
    case "sandbox":
      guard value == "on" || value == "off" else {
        throw CommandFailure(.usage, "'\(option)': sandbox is on or off")
      }
      isConfined = value == "on"
    case "log_file": logFile = try Self.path(option, value)
    case "device_key": deviceKeyFile = try Self.path(option, value)
    case "shared" where value == nil: isShared = true
    case "ro" where value == nil: isReadOnly = true
    case "allow_other" where value == nil: allowsOthers = true
    case "nonempty" where value == nil: coversContents = true
    case let name where Self.ignored.contains(name) || name.hasPrefix("x-"): break
    default: fuseOptions.append(option)
    }
  }

  /// Splits at commas that no backslash stands before.
  private static func split(_ list: String) -> [String] {
    var options = [""]
    var isEscaped = false
    for character in list {
      if character == ",", !isEscaped {
        options.append("")
        continue
      }
      isEscaped = character == "\\" && !isEscaped
      options[options.count - 1].append(character)
    }
    return options.filter { !$0.isEmpty }
  }

  private static func seconds(_ option: String, _ value: String?) throws(CommandFailure) -> Double {
    guard let value, let seconds = Double(value), (0...86_400).contains(seconds) else {
      throw CommandFailure(.usage, "'\(option)': give seconds, from 0 to 86400")
    }
    return seconds
  }

  private static func path(_ option: String, _ value: String?) throws(CommandFailure) -> String {
    guard let value, !value.isEmpty else { throw CommandFailure(.usage, "'\(option)': a file is missing") }
    return value.replacing("\\,", with: ",")
  }
}
