import Glibc
import ProtectfsIO
import SystemPackage

/// A write of a program to a file in a directory, by way of the kernel's pages.
struct FaultOperation: Sendable {
  let name: String
  private let oldCount: Int
  private let range: Range<Int>
  private let flags: CInt

  static let all = [
    Self(name: "cached write", oldCount: 5000, range: 10..<20, flags: 0),
    Self(name: "cached write", oldCount: 100, range: 50..<30_000, flags: 0),
    Self(name: "cached write behind the end", oldCount: 4095, range: 9000..<9005, flags: 0),
    Self(name: "synchronous write", oldCount: 4095, range: 4000..<9000, flags: OpenFile.synchronous),
  ]

  /// A name whose backing name is a hash, with a sidecar.
  static func long(_ letter: String) -> String { String(repeating: letter, count: 200) }

  /// Creates the directory with the file and a neighbour.
  func makePlace(_ directory: PathName) throws(Errno) {
    try directory.makeDirectory()
    try directory.appending(Self.long("n")).write(pattern(2, count: 33))
    try directory.appending("file").write(pattern(5, count: oldCount))
  }

  func run(_ directory: PathName) throws(Errno) {
    let opened = try OpenFile(directory.appending("file"), O_RDWR | flags)
    try opened.write(pattern(6, count: range.count), at: range.lowerBound)
    if flags == 0 { try opened.synchronize() }
  }

  /// The directory before and after.
  struct States {
    let old: Snapshot
    let new: Snapshot

    /// Whether this is permitted after a failure: each byte old or new, at a length between the two.
    func allow(_ found: Snapshot) -> Bool { found == old || found == new || found.isBetween(old, new) }
  }

  /// What the operation does without failures, in a directory created for this.
  func states(at directory: PathName) throws(Errno) -> States {
    try makePlace(directory)
    let old = try Snapshot(of: directory)
    try run(directory)
    return States(old: old, new: try Snapshot(of: directory))
  }
}
