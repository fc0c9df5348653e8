import Foundation
import ProtectfsIO
import SystemPackage
import Testing

@testable import DataProtectionEssentials

/// What killed programs have left is removed by others that write in the same directory.
@Suite struct UnfinishedWritesTests {
  @Test func onlyWhatNobodyUsesIsRemoved() throws {
    let scratch = try Scratch()
    let names = (0..<4).map { _ in StagingName.make() }
    for name in names + ["other.staging"] {
      try FileManager.default.createDirectory(at: scratch[name], withIntermediateDirectories: false)
      try scratch.write("unfinished", to: "\(name)/file")
    }
    let locked = try Descriptor.open(scratch.path(names[1]), [.readOnly, .directory])
    try locked.lock(isShared: false)
    for name in names.dropLast() + ["other.staging"] {
      let past = TimeChange.set(seconds: Int64(Date.now.timeIntervalSince1970) - 90, nanoseconds: 0)
      try Descriptor.open(scratch.path(name), [.path]).setTimes(access: past, modification: past)
    }
    let parent = try Descriptor.open(scratch.path("."), [.path])
    // One call in 64 does it; which, depends on the tests that run beside this.
    for _ in 0..<10_000 {
      if try !scratch.names().contains(names[0]) { break }
      UnfinishedWrites.removeNowAndThen(in: parent)
    }
    let left = try scratch.names().filter { !$0.contains("/") }
    #expect(left == [names[1], names[3], "other.staging"])
    locked.unlock()
  }

  /// All that stages something does so.
  @Test func copiesRemoveThem() throws {
    let scratch = try Scratch()
    let name = StagingName.make()
    try FileManager.default.createDirectory(at: scratch[name], withIntermediateDirectories: false)
    let past = TimeChange.set(seconds: 1_000_000_000, nanoseconds: 0)
    try Descriptor.open(scratch.path(name), [.path]).setTimes(access: past, modification: past)
    try scratch.write("text", to: "file")
    // As above.
    for number in 0..<10_000 {
      if try !scratch.names().contains(name) { break }
      try ItemCopy().run(from: scratch["file"].path, to: scratch["\(number)"].path)
    }
    #expect(try !scratch.names().contains(name))
  }
}
