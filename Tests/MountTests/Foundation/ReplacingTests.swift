import DataProtection
import Foundation
import ProtectfsIO
import Testing

extension MountTests {
  /// The class that `replaceItemAt` leaves.
  @Suite struct ReplacingTests {
    private let manager = FileManager.default

    private func isExplicit(_ path: PathName) throws -> Bool {
      try path.extendedAttributeNames().contains(ProtectionClass.attributeName)
    }

    private func protectionClass(_ url: URL) throws -> ProtectionClass { try ProtectionClass(ofItemAt: url.path) }

    /// Made in a directory of another class, on the same mount, on another one, and on none.
    @Test func inheritedClassesAreKept() throws {
      try Volume.with { volume in
        try Volume.with { other in
          let elsewhere = URL(fileURLWithPath: "\(volume.directory)/elsewhere")
          try volume.path("A").makeDirectory(of: .complete)
          try volume.path("tmp").makeDirectory()
          for new in [volume.url("tmp/doc"), other.url("doc"), elsewhere] {
            let url = volume.url("A/doc")
            try Data("old".utf8).write(to: url)
            try Data("new".utf8).write(to: new)
            try manager.replaceItemAt(url, withItemAt: new)
            #expect(try Data(contentsOf: url) == Data("new".utf8))
            #expect(try protectionClass(url) == .complete && !isExplicit(volume.path("A/doc")), "\(new)")
            #expect(!manager.fileExists(atPath: new.path))
          }
          // Inherited in another directory.
          try manager.moveItem(at: volume.url("A/doc"), to: volume.url("doc"))
          try Data("new".utf8).write(to: volume.url("tmp/doc"))
          try manager.replaceItemAt(volume.url("doc"), withItemAt: volume.url("tmp/doc"))
          #expect(try protectionClass(volume.url("doc")) == .complete && isExplicit(volume.path("doc")))
          #expect(try volume.names("A").isEmpty && volume.names("tmp").isEmpty)
        }
      }
    }

    /// The old one is removed at once, so all of the new one must be on the disk by then.
    @Test func aPackageIsDurableBeforeItReplacesAnother() throws {
      try Volume.withFaults { volume, faults in
        func make(_ name: String) throws {
          for directory in [name, "\(name)/below"] { try volume.path(directory).makeDirectory() }
          for file in ["a", "b", "below/c"] { try volume.path("\(name)/\(file)").write(name) }
        }
        try make("old")
        try make("new")
        // Three files and two directories.
        for number in 1...5 {
          faults.arm(.fail(.ioError), at: number, of: .flushes)
          #expect(throws: CocoaError.self, "flush \(number), \(faults.hit ?? "none")") {
            try manager.replaceItemAt(volume.url("old"), withItemAt: volume.url("new"))
          }
          faults.disarm()
          #expect(try volume.path("old/below/c").text() == "old")
        }
        try manager.replaceItemAt(volume.url("old"), withItemAt: volume.url("new"))
        #expect(try volume.path("old/below/c").text() == "new")
      }
    }

    /// From another file system, and wherever the store fails: the old one has its name, or that of the backup, or
    /// where nothing can be put right, one that nobody removes.
    @Test func aPackageIsNeverRemovedInsteadOfKept() throws {
      try Volume.withFaults { volume, faults in
        let new = URL(fileURLWithPath: "\(volume.directory)/new")
        for number in 1... {
          let directory = volume.path("\(number)")
          try? manager.removeItem(at: new)
          for place in [new, volume.url("\(number)/old")] {
            try manager.createDirectory(at: place, withIntermediateDirectories: true)
            try Data(place.lastPathComponent.utf8).write(to: place.appending(path: "file"))
          }
          faults.arm(.failOn(.ioError), at: number, of: .changes)
          _ = try? manager.replaceItemAt(
            volume.url("\(number)/old"), withItemAt: new, backupItemName: "backup", options: .withoutDeletingBackupItem)
          faults.disarm()
          let kept = try directory.names().filter { !$0.description.hasSuffix(".staging") }
          #expect(
            kept.contains { (try? directory.appending("\($0)/file").text()) == "old" },
            "change \(number), \(faults.hit ?? "none"): \(kept)")
          #expect(directory.appending("old/file").exists)
          if faults.hit == nil { break }
        }
      }
    }

    @Test func explicitClassesOfNewItemsWin() throws {
      try Volume.with { volume in
        try volume.path("A").makeDirectory(of: .complete)
        let (url, new) = (volume.url("A/doc"), volume.url("doc"))
        try Data("old".utf8).write(to: url)
        try Data("new".utf8).write(to: new, options: .completeFileProtectionUnlessOpen)
        try manager.replaceItemAt(url, withItemAt: new)
        #expect(try protectionClass(url) == .completeUnlessOpen && isExplicit(volume.path("A/doc")))
      }
    }

    @Test(arguments: [false, true]) func packagesKeepTheirClass(isExplicit: Bool) throws {
      try Volume.with { volume in
        try Volume.with { other in
          try volume.path("A").makeDirectory(of: .complete)
          for new in [volume.url("new"), other.url("new")] {
            let url = volume.url(isExplicit ? "package" : "A/package")
            try? manager.removeItem(at: url)
            let attributes = isExplicit ? [FileAttributeKey.protectionKey: FileProtectionType.complete] : nil
            try manager.createDirectory(at: url, withIntermediateDirectories: false, attributes: attributes)
            try manager.createDirectory(at: new.appending(path: "deep"), withIntermediateDirectories: true)
            try Data("new".utf8).write(to: new.appending(path: "deep/file"))
            try Data("B".utf8).write(
              to: new.appending(path: "explicit"), options: .completeFileProtectionUnlessOpen)
            try manager.replaceItemAt(url, withItemAt: new)
            for name in ["", "deep", "deep/file"] {
              let item = name.isEmpty ? url : url.appending(path: name)
              #expect(try protectionClass(item) == .complete, "\(name)")
              #expect(try self.isExplicit(PathName(item.path)) == (isExplicit && name.isEmpty), "\(name)")
            }
            #expect(try protectionClass(url.appending(path: "explicit")) == .completeUnlessOpen)
            #expect(try Data(contentsOf: url.appending(path: "deep/file")) == Data("new".utf8))
          }
        }
      }
    }

    /// Whatever the mount does at a rename.
    @Test func explicitClassesAreKeptWithoutFields() throws {
      try Volume.with(["-o", "replace_class=move"]) { volume in
        let (url, new) = (volume.url("doc"), volume.url("new"))
        try Data("old".utf8).write(to: url, options: .completeFileProtection)
        try Data("new".utf8).write(to: new)
        try manager.replaceItemAt(url, withItemAt: new)
        #expect(try protectionClass(url) == .complete && isExplicit(volume.path("doc")))
      }
    }
  }
}
