import CSystemCalls
import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// A file is not removed where none of its class can be created: what programs do that remove a file before they
  /// create its successor leaves the old one or the new one.
  @Suite struct RemovalTests {
    /// Ways to put a new version in place. `$1` is the new one, on another file system, `$2` the old one.
    private static let saves = [
      "cp -f \"$1\" \"$2\"",
      "cp --remove-destination \"$1\" \"$2\"",
      "mv -f \"$1\" \"$2\"",
      "install -m 644 \"$1\" \"$2\"",
      "ln -f \"$1\" \"$2\"",
      "tar -C \"${1%/*}\" -cf - file | tar -C \"${2%/*}\" -xf -",
      "tar -C \"${1%/*}\" -cf - file | tar -C \"${2%/*}\" --unlink-first -xf -",
      "rsync -a \"$1\" \"$2\"",
      "rsync -a --inplace \"$1\" \"$2\"",
      "vim.tiny -u NONE -es -c 'set nobackup nowritebackup' -c 's/.*/new/' -c 'w!' -c 'q!' \"$2\"",
      "vim.tiny -u NONE -es -c 'set backupcopy=no' -c 's/.*/new/' -c 'w!' -c 'q!' \"$2\"",
      "rm -f \"$2\" && cat \"$1\" > \"$2\"",
    ]

    /// Where the old file is: in a directory of its class, of another class, and one of class C where the new file
    /// would be of class A.
    private static let places: [(directory: ProtectionClass, file: ProtectionClass)] = [
      (.complete, .complete), (.completeUntilFirstUserAuthentication, .complete),
      (.complete, .completeUntilFirstUserAuthentication),
    ]

    @Test(arguments: saves) func theOldVersionOrTheNew(_ save: String) throws {
      try Volume.with { volume in
        for (number, place) in Self.places.enumerated() {
          let new = try Self.newVersion(on: volume, number)
          let directory = volume.path("\(number)")
          try directory.makeDirectory(of: place.directory)
          let file = directory.appending("file")
          try file.write("old\n")
          if place.file != place.directory { try file.setProtectionClass(place.file) }
          try volume.lock()
          let saved = try Program.run(["sh", "-c", save, "sh", new.description, file.description])
          try volume.unlock()
          let text = String(decoding: try file.contents(), as: UTF8.self)
          #expect(text == "old\n" || text == "new\n", "\(place): \(saved.output)")
          #expect(try file.protectionClass() == place.file, "\(place): \(saved.output)")
        }
      }
    }

    /// Files of the default class before the first unlock, and one that is usable then, beside them.
    @Test(arguments: saves) func beforeTheFirstUnlock(_ save: String) throws {
      for fileClass in [ProtectionClass.standard, .none] {
        try Volume.with { volume in
          let new = try Self.newVersion(on: volume, 0)
          let file = volume.path("file")
          try file.write("old\n")
          if fileClass != .standard { try file.setProtectionClass(fileClass) }
          try volume.remount()
          let saved = try Program.run(["sh", "-c", save, "sh", new.description, file.description])
          try volume.unlock()
          let text = String(decoding: try file.contents(), as: UTF8.self)
          #expect(text == "old\n" || text == "new\n", "\(fileClass): \(saved.output)")
        }
      }
    }

    private static func newVersion(on volume: Volume, _ number: Int) throws -> PathName {
      let directory = volume.directory.appending("new.\(number)")
      try directory.makeDirectory()
      try directory.appending("file").write("new\n")
      return directory.appending("file")
    }

    @Test func isLoggedOnce() throws {
      try Volume.with(["-o", "allow_other,log_paths"], defaultClass: .complete) { volume in
        try volume.path("secret").write("old")
        try volume.lock()
        #expect(throws: Errno.permissionDenied) { try volume.path("secret").unlink() }
        let lines = volume.log.split(separator: "\n").filter { $0.contains("/secret") }
        #expect(lines.count == 1 && lines[0].contains("513"), "\(volume.log)")
      }
    }

    /// Unless that is wanted, as on iOS.
    @Test func isAllowedByAnOption() throws {
      try Volume.with(["-o", "allow_other,remove_locked"], defaultClass: .complete) { volume in
        try volume.path("file").write("old")
        try volume.lock()
        try volume.path("file").unlink()
        #expect(!volume.path("file").exists)
      }
    }

    /// What nothing opens any more can be removed in every state: of a class that was erased.
    @Test func whatWasErasedCanGo() throws {
      try Volume.with(defaultClass: .complete) { volume in
        try volume.path("file").write("old")
        let erased = try Command.run([
          "erase", "--class", "complete", "--yes", "--passcode-file", volume.passcodeFile.description,
          volume.mountPoint.description,
        ])
        #expect(erased.succeeded, "\(erased.output)")
        try volume.lock()
        try volume.path("file").unlink()
        #expect(!volume.path("file").exists)
      }
    }

    /// A file whose record is damaged can be read in no state, and removed in all.
    @Test func whatIsDamagedCanGo() throws {
      try Volume.with(defaultClass: .complete) { volume in
        let before = try Set(volume.backing.names())
        try volume.path("file").write("old")
        let backing = try #require(try volume.backing.names().first { !before.contains($0) })
        try volume.unmount()
        try volume.backing.appending(bytes: Array(backing.bytes)).setExtendedAttribute("user.cprotect", to: [1, 2, 3])
        try volume.mount()
        try volume.path("file").unlink()
        #expect(!volume.path("file").exists)
      }
    }
  }
}
