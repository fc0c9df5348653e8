/// What shells offer for the value of `mount -o`.
enum MountOptionCompletion {
  /// The options of ours, with the values that they have without being given, where a file is meant without one.
  static let words = [
    "allow_other", "at_rest=72h", "at_rest=off", "device_key=", "grace=10", "hooks=", "hooks=off", "inactive=600",
    "latency=auto", "latency=low", "latency=system",
    "lock_delay=10", "log_file=", "log_paths", "nonempty", "push_timeout=5", "remount", "remove_locked",
    "replace_class=keep",
    "replace_class=move", "ro", "rw", "sandbox=off", "shared", "threads=8", "transport=auto",
    "transport=device", "transport=io_uring",
  ]

  /// The values that a beginning may become: its last option is completed, and none is offered twice.
  static func candidates(for value: String) -> [String] {
    let options = value.split(separator: ",", omittingEmptySubsequences: false)
    let given = options.dropLast()
    let names = Set(given.map(name))
    return words.filter { !names.contains(name($0)) }.map { (given + [$0[...]]).joined(separator: ",") }
  }

  private static func name(_ option: some StringProtocol) -> String { String(option.prefix { $0 != "=" }) }
}
