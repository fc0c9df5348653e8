@testable import MountDaemon

func fuzzMountOptions(_ bytes: [UInt8]) {
  let text = String(decoding: bytes, as: UTF8.self)
  // A line feed is between two `-o`.
  let lists = text.split(separator: "\n").map(String.init)
  if let list = try? MountOptionList(lists) { checkOptions(list) }
  checkPath(text)
}

private func checkOptions(_ list: MountOptionList) {
  for period in [list.mount.gracePeriod, list.mount.inactivityPeriod] {
    precondition((.zero ... .seconds(86_400)).contains(period), "a lock is not put off for ever")
  }
  precondition((.seconds(0.1) ... .seconds(3600)).contains(list.mount.pushTimeout), "no lock waits for good")
  precondition((.zero ... .seconds(60)).contains(list.mount.lockDelay), "nor held back")
  precondition((1...256).contains(list.mount.threads))
  precondition(list.logFile?.isEmpty != true && list.deviceKeyFile?.isEmpty != true && list.hooks?.isEmpty != true)
  for option in list.mount.fuseOptions {
    precondition(!option.isEmpty && splitsNowhere(option), "libfuse would see two options")
    let again = try? MountOptionList([option])
    precondition(again?.mount.fuseOptions == [option], "what is left for others is none of ours")
    for name in ["ro", "rw", "remount", "shared", "allow_other", "nonempty"] {
      precondition(!option.utf8.elementsEqual(name.utf8))
    }
    for name in [
      "grace", "lock_delay", "push_timeout", "inactive", "threads", "latency", "replace_class", "log_file",
      "device_key",
      "hooks", "subtype", "fsname",
    ] {
      precondition(!option.utf8.starts(with: "\(name)=".utf8))
    }
  }
}

/// Whether every comma has a backslash before it, which is none's own escape.
private func splitsNowhere(_ option: String) -> Bool {
  var isEscaped = false
  for byte in option.utf8 {
    if byte == UInt8(ascii: ","), !isEscaped { return false }
    isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
  }
  return true
}

/// Every path can be given, whatever is in it, and whatever follows.
private func checkPath(_ path: String) {
  guard !path.isEmpty else { return }
  var escaped = ""
  for scalar in path.unicodeScalars {
    if scalar == "," || scalar == "\\" { escaped.unicodeScalars.append("\\") }
    escaped.unicodeScalars.append(scalar)
  }
  let list = must("a path") { try MountOptionList(["shared,log_file=\(escaped),ro"]) }
  precondition(list.mount.isShared && list.mount.isReadOnly && list.mount.fuseOptions.isEmpty)
  precondition(list.logFile.map { $0.utf8.elementsEqual(path.utf8) } == true, "a path is what was escaped")

  let session = MountOptions(backing: path, mountPoint: "/").sessionOptions
  precondition(session.allSatisfy(splitsNowhere) && session[0].utf8.elementsEqual("fsname=\(escaped)".utf8))
}
