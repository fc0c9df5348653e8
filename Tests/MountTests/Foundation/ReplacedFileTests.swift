import DataProtection
import Foundation
import ProtectfsIO
import Testing

extension MountTests {
  /// Calls with which Foundation replaces a file by another.
  @Suite struct ReplacedFileTests {
    private let manager = FileManager.default
    private static let data = Data("It keeps what protects it.\n".utf8)

    private func propertyList(_ url: URL) throws -> NSObject? {
      try unsafe PropertyListSerialization.propertyList(from: Data(contentsOf: url), format: nil) as? NSObject
    }

    @Test func fieldsAndClassesAreKept() throws {
      let dictionary = NSDictionary(dictionary: ["name": "Ana"])
      let list = NSArray(array: ["Ana", 1])
      let writes: [(String, (URL) throws -> Void)] = [
        ("createFile", { #expect(manager.createFile(atPath: $0.path, contents: Self.data)) }),
        ("dictionary", { try dictionary.write(to: $0) }),
        ("dictionary atomically", { #expect(dictionary.write(to: $0, atomically: true)) }),
        ("dictionary path", { #expect(dictionary.write(toFile: $0.path, atomically: true)) }),
        ("mutable", { #expect(NSMutableDictionary(dictionary: ["a": 1]).write(to: $0, atomically: true)) }),
        ("array", { #expect(list.write(to: $0, atomically: true)) }),
        ("array path", { #expect(list.write(toFile: $0.path, atomically: true)) }),
      ]
      try Volume.with(["-o", "replace_class=move"]) { volume in
        for (name, write) in writes {
          let url = volume.url(name)
          try Data("old".utf8).write(to: url, options: .completeFileProtection)
          try url.encryptedValues.set("me", forKey: "author")
          try write(url)
          #expect(try url.encryptedValues.value(forKey: "author") == "me", "\(name)")
          #expect(try ProtectionClass(ofItemAt: url.path) == .complete, "\(name)")
          #expect(try Data(contentsOf: url) != Data("old".utf8))
        }
        #expect(try propertyList(volume.url("dictionary path")) as? NSDictionary == dictionary)
        #expect(try propertyList(volume.url("array")) as? NSArray == list)
        let url = volume.url("createFile")
        #expect(manager.createFile(atPath: url.path, contents: nil, attributes: [.posixPermissions: 0o640]))
        #expect(try Data(contentsOf: url).isEmpty && PathName(url.path).status().mode & 0o777 == 0o640)
        #expect(try url.encryptedValues.value(forKey: "author") == "me")
        #expect(try volume.names().count == writes.count)
      }
    }

    /// Of files that have neither a class of their own nor fields.
    @Test func modesAndOwnersAreKept() throws {
      let writes: [(String, (URL) throws -> Void)] = [
        ("createFile", { #expect(manager.createFile(atPath: $0.path, contents: Self.data)) }),
        ("data", { try Self.data.write(to: $0, options: .atomic) }),
        ("string", { try "new".write(to: $0, atomically: true, encoding: .utf8) }),
        ("list", { #expect(NSArray(array: ["a"]).write(to: $0, atomically: true)) }),
      ]
      try Volume.with { volume in
        for (name, write) in writes {
          for mode in [0o600, 0o640, 0o755] as [UInt32] {
            for (user, group) in [(0, 0), (0, 65534), (65534, 65534)] as [(UInt32, UInt32)] {
              let (url, path) = (volume.url(name), volume.path(name))
              try Data("old".utf8).write(to: url)
              try path.setOwner(user: user, group: group)
              try path.setMode(mode)
              try write(url)
              #expect(try Data(contentsOf: url) != Data("old".utf8))
              let status = try path.status()
              #expect(status.mode & 0o777 == mode && status.user == user && status.group == group, "\(name)")
              try manager.removeItem(at: url)
            }
          }
        }
        #expect(try volume.names().isEmpty)
      }
    }

    /// With and without a class.
    @Test func linksAreFollowed() throws {
      try Volume.with { volume in
        try volume.path("A").makeDirectory(of: .complete)
        for (number, options) in ([.atomic, [.atomic, .completeFileProtection]] as [Data.WritingOptions]).enumerated() {
          for exists in [true, false] {
            let name = "\(number) \(exists)"
            if exists { try Data("old".utf8).write(to: volume.url("A/\(name)")) }
            try volume.path("link \(name)").makeSymbolicLink(to: PathName("A/\(name)"))
            try Self.data.write(to: volume.url("link \(name)"), options: options)
            #expect(try Data(contentsOf: volume.url("A/\(name)")) == Self.data)
            #expect(try ProtectionClass(ofItemAt: volume.url("A/\(name)").path) == .complete)
            #expect(try volume.path("link \(name)").symbolicLinkTarget() == Array("A/\(name)".utf8))
          }
        }
        // From outside, and to there: nothing of the mount becomes plaintext elsewhere.
        let outside = volume.directory.appending("outside")
        try outside.makeSymbolicLink(to: PathName(volume.url("A/far").path))
        try Self.data.write(to: URL(fileURLWithPath: outside.description), options: .atomic)
        #expect(try ProtectionClass(ofItemAt: volume.url("A/far").path) == .complete)
        let plain = volume.directory.appending("plain")
        try volume.path("out").makeSymbolicLink(to: plain)
        try Self.data.write(to: volume.url("out"), options: .atomic)
        #expect(try !plain.exists && Data(contentsOf: volume.url("out")) == Self.data)
      }
    }

    @Test func replacementsAreMadeOnTheMount() throws {
      func directory(for url: URL) throws -> URL {
        try manager.url(for: .itemReplacementDirectory, in: .userDomainMask, appropriateFor: url, create: true)
      }
      try Volume.with { volume in
        try volume.path("A").makeDirectory(of: .complete)
        try Data("old".utf8).write(to: volume.url("explicit"), options: .completeFileProtection)
        try Data("old".utf8).write(to: volume.url("A/inherited"))
        for name in ["explicit", "A/inherited", "A/none"] {
          let made = try directory(for: volume.url(name))
          #expect(made.path.hasPrefix(volume.mountPoint.description))
          let new = made.appending(path: "new")
          try Self.data.write(to: new)
          #expect(try ProtectionClass(ofItemAt: new.path) == .complete, "\(name)")
          if name != "A/none" { try manager.replaceItemAt(volume.url(name), withItemAt: new) }
          try manager.removeItem(at: made)
        }
        #expect(try Data(contentsOf: volume.url("A/inherited")) == Self.data)
        #expect(try directory(for: volume.url(".")).path.hasPrefix(volume.mountPoint.description))
        #expect(try !directory(for: URL(fileURLWithPath: "/tmp/file")).path.hasPrefix(volume.mountPoint.description))
        let home = try manager.url(for: .documentDirectory, in: .userDomainMask, appropriateFor: nil, create: false)
        #expect(home.isFileURL)
      }
    }
  }
}
