/// The names of mount options: what shells offer for the value of `mount -o`, and what a misspelled one was meant to
/// be.
enum MountOptionNames {
  /// The options of ours, with the values that they have without being given, where a file is meant without one.
  static let words = [
    "allow_other", "at_rest=72h", "at_rest=off", "device_key=", "grace=10", "hooks=", "hooks=off", "inactive=600",
    "isolation=30", "isolation=off",
    "latency=auto", "latency=low", "latency=system",
    "lock_delay=10", "log_file=", "log_paths", "nonempty", "push_timeout=10", "remount", "remove_locked",
    "replace_class=keep",
    "replace_class=move", "ro", "rw", "sandbox=off", "shared", "standby", "threads=8", "transport=auto",
    "transport=device", "transport=io_uring",
  ]

  /// The values that a beginning may become: its last option is completed, and none is offered twice.
  static func candidates(for value: String) -> [String] {
    let options = value.split(separator: ",", omittingEmptySubsequences: false)
    let given = options.dropLast()
    let names = Set(given.map(name))
    return words.filter { !names.contains(name($0)) }.map { (given + [$0[...]]).joined(separator: ",") }
  }

  /// What was meant by an option that is none of ours, and like none of libfuse's and the kernel's.
  static func meant(by option: String) -> String? {
    let given = name(option)
    return Set(words.map(name)).map { (name: $0, distance: given.typos(to: $0)) }
      .filter { $0.distance <= min(given.count - 1, max(1, given.count / 4)) }
      .min { ($0.distance, $0.name) < ($1.distance, $1.name) }?.name
  }

  private static func name(_ option: some StringProtocol) -> String { String(option.prefix { $0 != "=" }) }
}
