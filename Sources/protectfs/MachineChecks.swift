import Cryptography
import FUSE
import ProtectfsIO
import SystemPackage

/// What the machine and its kernel are set up for.
enum MachineChecks {
  static func findings() -> [Diagnosis] { [fuse, rings, lockedMemory, swap, hibernation, freedPages, coreDumps] }

  private static var fuse: Diagnosis {
    do throws(CommandFailure) {
      try MountPoint.requireFUSE(allowsOthers: false)
      return .good("FUSE", "this user can mount")
    } catch {
      return .fault("FUSE", "this user cannot mount", error.message)
    }
  }

  private static var rings: Diagnosis {
    switch Session.kernelOffersRings {
    case true?: .good("io_uring", "the kernel offers it for FUSE")
    case false?:
      .hint(
        "io_uring", "the kernel's fuse has it turned off, and it may be faster",
        "as root: echo Y >/sys/module/fuse/parameters/enable_uring; PERFORMANCE says on which machines it pays")
    case nil: .good("io_uring", "this kernel has none for FUSE; requests come through /dev/fuse")
    }
  }

  /// Where the kernel swaps to besides memory, and whether that is encrypted; `nil`: it cannot be told.
  ///
  /// - Parameter includingZRAM: also the devices behind compressed memory, from which no machine wakes.
  private static func swaps(includingZRAM: Bool) -> [(path: String, isEncrypted: Bool?)] {
    let paths = swapPaths(PathName("/proc/swaps").lines.dropFirst()) { name in
      includingZRAM ? PathName("/sys/class/block/\(name)/backing_dev").firstLine : nil
    }
    return paths.map { path in
      let name = path.split(separator: "/").last.map(String.init) ?? path
      if path.hasPrefix("/dev/") { return (path, isEncrypted("/sys/class/block/\(name)")) }
      guard let device = Process.device(of: path) else { return (path, nil) }
      return (path, isEncrypted("/sys/dev/block/\(device)"))
    }
  }

  /// The paths in lines of `/proc/swaps`. Compressed memory (zram) may write pages to a device behind it.
  static func swapPaths(_ lines: some Sequence<Substring>, backing: (String) -> String?) -> [String] {
    lines.compactMap { line in
      let path = String(line.prefix { $0 != " " && $0 != "\t" })
      guard let name = path.split(separator: "/").last, name.hasPrefix("zram") else { return path }
      return backing(String(name)).flatMap { $0 == "none" ? nil : $0 }
    }
  }

  /// Whether a block device is one of dm-crypt, or lies on such ones alone: a logical volume, say. `nil` for none.
  private static func isEncrypted(_ device: String) -> Bool? {
    guard PathName(device).isThere else { return nil }
    if PathName("\(device)/dm/uuid").firstLine?.hasPrefix("CRYPT-") == true { return true }
    guard let slaves = try? PathName("\(device)/slaves").names(limit: 256), !slaves.isEmpty else { return false }
    return slaves.allSatisfy { isEncrypted("\(device)/slaves/\($0)") == true }
  }

  private static var swap: Diagnosis {
    let plain = swaps(includingZRAM: true).filter { $0.isEncrypted != true }.map(\.path)
    guard !plain.isEmpty else { return .good("swap", "none, or encrypted") }
    return .hint(
      "swap", "\(plain.joined(separator: ", ")): keys of open files and plaintext of requests may get there",
      "encrypt it (crypttab(5), option swap), unless the disk below is, or turn it off with swapoff(8)")
  }

  private static var hibernation: Diagnosis {
    let swaps = swaps(includingZRAM: false)
    let canHibernate =
      PathName("/sys/power/state").firstLine?.split(separator: " ").contains("disk") == true
      && PathName("/sys/power/disk").firstLine?.hasPrefix("[disabled]") == false && !swaps.isEmpty
    guard canHibernate else { return .good("hibernation", "not possible") }
    guard swaps.contains(where: { $0.isEncrypted != true }) else {
      return .good("hibernation", "writes memory to an encrypted disk")
    }
    let advice = "as root: systemctl mask hibernate.target hybrid-sleep.target suspend-then-hibernate.target"
    let words = "writes all of memory, the key of class C in it, to a disk that is not encrypted"
    return swaps.contains { $0.isEncrypted == false }
      ? .fault("hibernation", words, advice)
      : .hint("hibernation", "\(words), unless the disk below is", "then \(advice)")
  }

  private static var freedPages: Diagnosis {
    let isOn =
      PathName("/proc/cmdline").firstLine?.split(separator: " ").contains("init_on_free=1") == true
      || PathName("/proc/sys/kernel/osrelease").firstLine.map { PathName("/boot/config-\($0)").lines }?
        .contains("CONFIG_INIT_ON_FREE_DEFAULT_ON=y") == true
    return isOn
      ? .good("freed memory", "the kernel wipes it")
      : .hint(
        "freed memory", "pages of files that were locked stay in it until they are used again",
        "boot with init_on_free=1 on the kernel's command line, which costs some speed")
  }

  private static var coreDumps: Diagnosis {
    let settings = "/etc/systemd/coredump.conf"
    let others = ((try? PathName("\(settings).d").names(limit: 256)) ?? []).map { "\(settings).d/\($0)" }
    let limit = PathName("/proc/self/limits").lines.first { $0.hasPrefix("Max core file size") }
    return coreDumps(
      pattern: PathName("/proc/sys/kernel/core_pattern").firstLine ?? "",
      limit: limit?.split(separator: " ").dropLast(2).last.map(String.init) ?? "",
      storesNone: ([settings] + others).contains { PathName($0).lines.contains("Storage=none") })
  }

  /// What the kernel does with the memory of programs that crash, by its setting and the soft limit of this process
  /// (core(5)), and by what systemd-coredump is set to. That heeds the limit if it is told (`%c`; Debian does not), as
  /// the kernel does for files; other programs that a dump is piped to do not.
  static func coreDumps(pattern: String, limit: String, storesNone: Bool) -> Diagnosis {
    let program = pattern.hasPrefix("|") ? pattern.dropFirst().split(separator: " ").first ?? "" : nil
    let isKept =
      switch program?.split(separator: "/").last {
      case nil: !pattern.isEmpty && limit != "0"
      case "systemd-coredump": !storesNone && (limit != "0" || !pattern.contains("%c"))
      case let name?: name != "false" && name != "true"
      }
    guard isKept else { return .good("core dumps", "none are kept") }
    return .hint(
      "core dumps",
      "programs that a lock ends, since they have a locked file mapped, leave their memory on the disk, as "
        + (program.map { "\($0) keeps it".printable } ?? "files '\(pattern.printable)'"),
      "Storage=none in coredump.conf, or apport off; see DESKTOP.md")
  }

  private static var lockedMemory: Diagnosis {
    guard let warning = SecureHeap.warning else { return .good("locked memory", "there is enough for keys") }
    return .fault(
      "locked memory", warning, "raise memlock in /etc/security/limits.conf, or LimitMEMLOCK= of the service")
  }
}
