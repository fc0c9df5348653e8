import DataProtection
import Foundation
import ProtectfsIO
import Testing

extension MountTests {
  /// ACLs on mounts: whoever copies a mode without the ACL gives the group what the ACL grants to others.
  @Suite(.enabled(if: Program.isInstalled("setfacl"), "setfacl is not installed")) struct AccessListTests {
    private func list(_ path: PathName) throws -> [UInt8] { try path.extendedAttribute("system.posix_acl_access") }

    @Test func writesCopiesAndMovesKeepThem() throws {
      let manager = FileManager.default
      try Volume.with { volume in
        try Volume.with { other in
          let url = volume.url("file")
          try Data("old".utf8).write(to: url)
          let set = try Program.run(["setfacl", "-m", "u:65534:rw,g::-", url.path])
          try #require(set.succeeded, "\(set.output)")
          let expected = try list(volume.path("file"))
          for options in [.atomic, [.atomic, .completeFileProtection]] as [Data.WritingOptions] {
            try Data("new".utf8).write(to: url, options: options)
            #expect(try list(volume.path("file")) == expected)
          }
          try manager.copyItem(at: url, to: volume.url("copy"))
          #expect(try list(volume.path("copy")) == expected)
          try manager.moveItem(at: url, to: other.url("moved"))
          #expect(try list(other.path("moved")) == expected)
          try Data("new".utf8).write(to: url)
          try manager.replaceItemAt(volume.url("copy"), withItemAt: url)
          #expect(try list(volume.path("copy")) == expected)
        }
      }
    }
  }
}
