import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The state of a directory and everything below it, as a program sees it, without times.
struct Snapshot: Equatable {
  struct Entry: Equatable {
    var mode: UInt32
    var links: UInt32
    /// The contents of a file, or the target of a link.
    var contents: [UInt8] = []
    var fileClass: ProtectionClass?
    var attributes: [String: [UInt8]] = [:]
  }

  /// By path below the directory; the directory itself is `.`.
  var entries: [PathName: Entry] = [:]

  init(of directory: PathName) throws(Errno) {
    entries["."] = try Entry(of: directory)
    try add(directory, prefix: [])
  }

  private mutating func add(_ directory: PathName, prefix: [UInt8]) throws(Errno) {
    for name in try directory.names() {
      let path = directory.appending(bytes: Array(name.bytes))
      let entry = try Entry(of: path)
      entries[PathName(bytes: prefix + name.bytes)] = entry
      if entry.mode & 0o170000 == 0o040000 {
        try add(path, prefix: prefix + name.bytes + [UInt8(ascii: "/")])
      }
    }
  }

  /// Whether each byte of each file is that of one or the other, or zero where neither had one, at a length between
  /// theirs. Everything but contents must be the same in all three.
  func isBetween(_ old: Snapshot, _ new: Snapshot) -> Bool {
    guard Set(entries.keys) == Set(old.entries.keys), Set(entries.keys) == Set(new.entries.keys) else { return false }
    return entries.allSatisfy { path, entry in
      let (before, after) = (old.entries[path]!, new.entries[path]!)
      var (bare, bareBefore, bareAfter) = (entry, before, after)
      bare.contents = []
      bareBefore.contents = []
      bareAfter.contents = []
      return bare == bareBefore && bare == bareAfter
        && Self.isBetween(entry.contents, before.contents, after.contents)
    }
  }

  private static func isBetween(_ bytes: [UInt8], _ old: [UInt8], _ new: [UInt8]) -> Bool {
    guard (min(old.count, new.count)...max(old.count, new.count)).contains(bytes.count) else { return false }
    return bytes.indices.allSatisfy { index in
      let (before, after) = (index < old.count ? old[index] : 0, index < new.count ? new[index] : 0)
      return bytes[index] == before || bytes[index] == after
    }
  }

  /// How it differs from another, in a few lines.
  func difference(to other: Snapshot) -> String {
    Set(entries.keys).union(other.entries.keys).filter { entries[$0] != other.entries[$0] }.map { path in
      let (own, others) = (entries[path], other.entries[path])
      return "\(path.description.prefix(40)): \(own?.summary ?? "missing") ≠ \(others?.summary ?? "missing")"
    }.sorted().joined(separator: "; ")
  }
}

extension Snapshot.Entry {
  init(of path: PathName) throws(Errno) {
    let status = try path.status()
    self.init(mode: status.mode, links: status.links)
    switch status.mode & 0o170000 {
    case 0o100000:
      // Past the cache: the daemon's data, not the kernel's.
      let file = try OpenFile(path, O_RDONLY | OpenFile.direct)
      contents = try file.read(at: 0, count: Int(status.size) + 4096)
      fallthrough
    case 0o040000:
      fileClass = try path.protectionClass()
      for name in try path.extendedAttributeNames() { attributes[name] = try path.extendedAttribute(PathName(name)) }
    case 0o120000: contents = try path.symbolicLinkTarget()
    default: break
    }
  }

  var summary: String {
    let ends = contents.count > 8 ? "\(contents.prefix(4))…\(contents.suffix(4))" : "\(contents)"
    return "mode \(String(mode, radix: 8)), \(links) links, \(contents.count) bytes \(ends), "
      + "class \(fileClass?.letter ?? "-"), \(attributes.map { "\($0.key): \($0.value.count)" }.sorted())"
  }
}
