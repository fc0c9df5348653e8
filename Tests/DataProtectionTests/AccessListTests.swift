import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

@testable import DataProtectionEssentials

/// The mode of a file with an ACL says what the ACL grants at most: a copy of the mode alone grants it to the group.
@Suite struct AccessListTests {
  /// `u::rw-,u:65534:rw-,g::---,m::rw-,o::---`, as in linux/posix_acl_xattr.h.
  static let list: [UInt8] =
    [2, 0, 0, 0]
    + [(1, 6, UInt32.max), (2, 6, 65534), (4, 0, .max), (16, 6, .max), (32, 0, .max)].flatMap {
      (tag: UInt8, permissions: UInt8, identity: UInt32) -> [UInt8] in
      [tag, 0, permissions, 0] + bytes(identity)
    }

  private static func bytes(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(value >> ($0 * 8) & 0xff) } }

  private static let access: PathName = "system.posix_acl_access"
  private static let standard: PathName = "system.posix_acl_default"

  @Test func copiesHaveTheList() throws {
    let scratch = try Scratch()
    try FileManager.default.createDirectory(at: scratch["tree/deep"], withIntermediateDirectories: true)
    try scratch.write("text", to: "tree/deep/file")
    for name in ["tree/deep", "tree/deep/file"] { try scratch.path(name).setAttribute(Self.access, to: Self.list) }
    try scratch.path("tree/deep").setAttribute(Self.standard, to: Self.list)
    try ItemCopy().run(from: scratch["tree"].path, to: scratch["copy"].path)
    for name in ["deep", "deep/file"] {
      #expect(try scratch.path("copy/\(name)").attribute(Self.access) == Self.list)
      #expect(
        try scratch.path("copy/\(name)").status().permissions == scratch.path("tree/\(name)").status().permissions)
    }
    #expect(try scratch.path("copy/deep").attribute(Self.standard) == Self.list)
    #expect(try !scratch.path("copy").attributeNames().contains(Self.access))
  }

  @Test func replacedFilesPassItOn() throws {
    let scratch = try Scratch()
    for hasList in [true, false] {
      try scratch.write("old", to: "old")
      try scratch.write("new", to: "new")
      try scratch.path(hasList ? "old" : "new").setAttribute(Self.access, to: Self.list)
      try FileManager.default.replaceItemAt(scratch["old"], withItemAt: scratch["new"])
      #expect(try scratch.path("old").attributeNames().contains(Self.access) == hasList)
      #expect(try scratch.text("old") == "new")
      try FileManager.default.removeItem(at: scratch["old"])
    }
  }

  /// Where there are no ACLs, the group gets what is its own: `/proc` has none.
  @Test func nobodyGainsAccessWithoutLists() throws {
    let scratch = try Scratch()
    try scratch.write("text", to: "file")
    try scratch.path("file").setAttribute(Self.access, to: Self.list)
    let lists = try AccessLists(of: Descriptor.open(scratch.path("file"), [.path]))
    let other = try Descriptor.open("/proc/self/comm", [.path])
    #expect(try lists.setAccess(of: other, 0o660) == 0o600)
  }
}
