import Foundation
import ProtectfsIO
import SystemPackage

@testable import SimulatedDisk

/// A line of `sequences.txt`: calls as words.
struct CallSequence {
  let calls: [String]

  static func all() throws -> [CallSequence] {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("sequences.txt")
    return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").filter { !$0.hasPrefix("#") }
      .map { line in CallSequence(calls: line.components(separatedBy: "; ")) }
  }

  /// What power cuts may leave at a call, in the words of scripts/disk-rules.py.
  struct States: Encodable {
    var calls: [String] = []
    /// Until it has returned, and since then; by the number of the call.
    var during: [Set<String>] = []
    var after: [Set<String>] = []
  }

  /// A disk with the files that are there before.
  private static func disk() throws -> SimulatedDisk {
    let disk = SimulatedDisk(keepsOrder: true)
    try disk.run {
      for call in ["create a", "write a 0 100 o", "create big", "write big 0 10000 o", "sync"] { try make(call) }
    }
    return disk
  }

  /// Makes the calls.
  func states() throws -> States {
    let disk = try Self.disk()
    var states = States()
    for call in calls {
      disk.beginStep()
      try disk.run { try Self.make(call) }
      let cuts = try disk.cutsOfStep.map { cut in Set(try cut.allImages().map(\.listing)) }
      states.calls.append(call)
      states.during.append(cuts.reduce(states.after.last ?? []) { $0.union($1) })
      states.after.append(cuts.last ?? [])
    }
    return states
  }

  private struct UnknownCall: Error { let call: String }

  private static func make(_ call: String) throws {
    let words = call.split(separator: " ").map(String.init)
    let names = words.dropFirst().map { PathName($0) }
    let numbers = words.map { UInt64($0) ?? 0 }
    let top = try Descriptor.open(SimulatedDisk.path, [.readOnly, .directory])
    func file() throws -> Descriptor { try top.open(names[0], [.readWrite]) }
    switch words[0] {
    case "create": _ = try top.open(names[0], [.readWrite, .create, .exclusive], mode: 0o600)
    case "write":
      let bytes = [UInt8](repeating: words[4].utf8.first ?? 0, count: Int(numbers[3]))
      try unsafe file().write(bytes.withUnsafeBytes { unsafe $0 }, at: numbers[2])
    case "truncate": try file().truncate(to: numbers[2])
    case "punch": try file().allocate([.punchHole, .keepSize], offset: numbers[2], length: numbers[3])
    case "rename": try top.rename(names[0], to: names[1], in: top)
    case "exchange": try top.rename(names[0], to: names[1], in: top, flags: .exchange)
    case "link": try top.link(names[0], to: names[1], in: top)
    case "unlink": try top.unlink(names[0])
    case "mkdir": try top.makeDirectory(names[0], mode: 0o700)
    case "set": try file().setAttribute(names[1], to: Array(words[3].utf8), mode: .createOrReplace)
    case "fsync": try top.open(names[0], [.readOnly]).synchronize()
    case "fdatasync": try file().synchronizeData()
    case "sync": try top.synchronizeFileSystem()
    default: throw UnknownCall(call: call)
    }
  }
}

extension PowerCut {
  private struct TooMany: Error { let count: Int }

  /// All images that may be found.
  fileprivate func allImages() throws -> Set<DiskImage> {
    guard pending.count <= Self.mostCombined + 4 else { throw TooMany(count: pending.count) }
    var generator = SystemRandomNumberGenerator()
    return images(using: &generator, combining: pending.count)
  }
}

extension DiskImage {
  /// What a program finds: each path, with the runs of bytes or `directory`, and its attributes.
  fileprivate var listing: String { lines(of: Self.root, "").sorted().joined(separator: "\n") }

  private func lines(of directory: Int, _ path: String) -> [String] {
    self[directory].entries.flatMap { name, number in
      let (inode, path) = (self[number], path + name.description)
      let attributes = inode.attributes.sorted { $0.key.description < $1.key.description }
        .map { " \($0.key)=\(String(decoding: $0.value, as: UTF8.self))" }.joined()
      if inode.type == .directory {
        return ["\(path): directory\(attributes)"] + lines(of: number, path + "/")
      }
      return ["\(path): \(Self.runs(inode.contents))\(attributes)"]
    }
  }

  private static func runs(_ contents: [UInt8]) -> String {
    var runs: [(byte: UInt8, count: Int)] = []
    for byte in contents {
      if runs.last?.byte == byte { runs[runs.count - 1].count += 1 } else { runs.append((byte, 1)) }
    }
    return runs.map { "\($0.byte == 0 ? "0" : String(UnicodeScalar($0.byte)))*\($0.count)" }.joined(separator: ",")
  }
}

extension DiskImage.Inode {
  fileprivate var contents: [UInt8] {
    var contents = [UInt8](repeating: 0, count: Int(size))
    for (page, bytes) in pages {
      let start = Int(page * DiskImage.pageSize)
      guard start < contents.count else { continue }
      let count = min(bytes.count, contents.count - start)
      contents.replaceSubrange(start..<start + count, with: bytes.prefix(count))
    }
    return contents
  }
}
