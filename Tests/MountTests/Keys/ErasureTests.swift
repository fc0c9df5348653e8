import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// Erased keys are gone: from the store, from the daemon's memory, and for all users of them.
  @Suite struct ErasureTests {
    @Test(arguments: [true, false]) func aStoreIsErased(whileMounted: Bool) throws {
      try Volume.with { volume in
        var files = try ProtectionClass.allCases.map { try ErasedFile(of: $0, on: volume) }
        if !whileMounted {
          files = []
          try volume.unmount()
        }
        let before = try volume.ownFiles()
        let erased = try volume.command("erase", ["--yes"])
        #expect(erased.succeeded, "\(erased.output)")
        if whileMounted {
          for file in files { file.expectRevoked() }
          files = []
          #expect(try #require(throws: ControlError.self) { try volume.unlock(Volume.passcode) }.code == .storeErased)
          let status = try volume.status()
          #expect(status.erased != nil && status.classes.allSatisfy { $0.key == .unavailable })
          let report = try Command.run(["status", volume.mountPoint.description])
          #expect(report.output.contains("; nothing can be read"), "\(report.output)")
          try volume.unmount()
        }
        // A later mount reports the time of the erasure, not a wrong passcode.
        let failure = try #require(throws: MountFailure.self) { try volume.mount() }
        #expect(failure.ending == .exited(21))
        #expect(failure.output.contains(try Regex("erased on [0-9]{4}-[0-9]{2}-[0-9]{2}T")), "\(failure.output)")
        // Nothing that the old keybag needs is left, nor the keybag itself.
        let after = try volume.ownFiles()
        #expect(after["effaceable"]?.allSatisfy { $0 == 0 } == true)
        #expect(after["keybag"] == after["keybag.previous"])
        try volume.putBack(before.merging(["effaceable": after["effaceable"] ?? []]) { $1 })
        for secret in [["--passcode-file", volume.passcodeFile.description]] {
          #expect(try volume.command("key", ["test"] + secret).ending == .exited(8))
        }
      }
    }

    /// Stores of the first version have no effaceable secret. Their keybags are overwritten in place.
    @Test func aStoreWithoutAnEffaceableSecretIsErased() throws {
      try Volume.store { volume in
        try volume.removeEffaceableSecret()
        let previous = try OpenFile(volume.backing.appending(".protectfs/keybag.previous"), O_RDONLY)
        let current = try OpenFile(volume.backing.appending(".protectfs/keybag"), O_RDONLY)
        #expect(try current.read(at: 0, count: 8) == Array("protkbag".utf8))
        #expect(try volume.command("erase", ["--yes"]).succeeded)
        // The old keybag is now the previous one, and was overwritten. The one before it has no name.
        #expect(try current.read(at: 0, count: 4096).allSatisfy { $0 == 0 })
        _ = previous
        #expect(
          try volume.command("key", ["test", "--passcode-file", volume.passcodeFile.description]).ending == .exited(21))
      }
    }

    /// The store was moved while it was mounted, and another is where it was: that one is meant by its path, and is not
    /// looked for behind the mount.
    @Test func theStoreIsErasedThatIsThere() throws {
      try Volume.with { volume in
        let moved = volume.directory.appending("moved")
        try volume.path("file").write("contents")
        try volume.backing.rename(to: moved)
        #expect(try Program.run(["cp", "-a", moved.description, volume.backing.description]).succeeded)
        let opening = ["--passcode-file", volume.passcodeFile.description]
        let export = try Command.run(["key", "list", volume.mountPoint.description])
        #expect(!export.succeeded && export.output.contains("not at \(volume.backing)"), "\(export.output)")
        let erased = try Command.run(
          ["erase", "--yes", volume.backing.description, "--device-key", volume.deviceKey.description])
        #expect(erased.succeeded, "\(erased.output)")
        #expect(try volume.path("file").contents() == Array("contents".utf8))
        try volume.unmount()
        func test(_ store: PathName) throws -> Program.Ending {
          try Command.run(["key", "test", store.description, "--device-key", volume.deviceKey.description] + opening)
            .ending
        }
        #expect(try test(volume.backing) == .exited(21))
        #expect(try test(moved) == .exited(0))
      }
    }

    /// What is there now may be mounted too, from where it was before.
    @Test func aMountedStoreThatTookAnothersPlaceIsNotTheOther() throws {
      try Volume.with { volume in
        let (moved, other) = (volume.directory.appending("moved"), volume.directory.appending("other"))
        try volume.path("file").write("contents")
        #expect(try Program.run(["cp", "-a", volume.backing.description, other.description]).succeeded)
        let second = try SecondMount(of: volume, "second", backing: other, options: "allow_other")
        try second.unlock()
        try volume.backing.rename(to: moved)
        try other.rename(to: volume.backing)
        let erased = try Command.run(
          ["erase", "--yes", volume.backing.description, "--device-key", volume.deviceKey.description])
        #expect(erased.ending == .exited(7), "\(erased.output)")
        for path in [volume.path("file"), second.path("file")] {
          #expect(try path.contents() == Array("contents".utf8))
        }
        try second.end()
      }
    }

    @Test(arguments: ProtectionClass.allCases) func aClassIsErased(_ fileClass: ProtectionClass) throws {
      try Volume.with { volume in
        var files = try ProtectionClass.allCases.map { try ErasedFile(of: $0, on: volume) }
        let result = try volume.command(
          "erase", ["--class", fileClass.name, "--yes", "--passcode-file", volume.passcodeFile.description])
        #expect(result.succeeded, "\(result.output)")
        for locked in [false, true] {
          if locked { try volume.lock() } else { try volume.unlock() }
          for file in files where file.fileClass == fileClass { file.expectRevoked() }
        }
        try volume.unlock()
        for file in files where file.fileClass != fileClass { try file.expectContents() }
        files = []
        // New files of the class get a new key at once.
        let new = volume.path(fileClass.letter).appending("new")
        try new.write("after")
        #expect(try volume.record(of: new).classKeyID == volume.keyIDs(of: fileClass).last)
        try volume.remount()
        try volume.unlock()
        #expect(try new.contents() == Array("after".utf8))
        #expect(throws: keyRevoked) { try OpenFile(volume.path(fileClass.letter).appending("file"), O_RDONLY) }
      }
    }

    /// After an erasure, class A's keys and plaintext and all secrets that open the store are nowhere in the daemon's
    /// memory.
    @Test(arguments: [false, true]) func nothingIsLeftInMemory(all: Bool) throws {
      try Volume.with(unlocked: false) { volume in
        try volume.unlock(Volume.passcode)
        let plaintext = try Plaintext(of: .complete, on: volume)
        let keys = try StoreKeys(of: volume)
        var needles = plaintext.needles
        needles.add("the key of class A", keys.classKeys[.complete]!)
        for file in plaintext.files { needles.add("a file's key", try keys.fileKeys(of: file, on: volume)) }
        needles.add("the keybag key", keys.keybagKey)
        needles.add("the effaceable secret", keys.effaceable)
        needles.add("the passcode", Array(Volume.passcode.utf8))
        if all {
          for (fileClass, key) in keys.classKeys { needles.add("the key of class \(fileClass.letter)", key) }
        }
        var key = Needles()
        key.add("the key of class A", keys.classKeys[.complete]!)
        #expect(try key.find(in: volume.processID).count > 0)
        let words = all ? [] : ["--class", "A", "--passcode-file", volume.passcodeFile.description]
        #expect(try volume.command("erase", words + ["--yes"]).succeeded)
        try needles.expectNone(in: volume.processID)
        for file in plaintext.files { #expect(throws: keyRevoked) { try OpenFile(file, O_RDONLY) } }
      }
    }

    /// A wrong passcode leaves nothing of itself, nor of what is derived from it.
    @Test func wrongPasscodesLeaveNothing() throws {
      try Volume.with(unlocked: false) { volume in
        let keys = try StoreKeys(of: volume)
        var needles = Needles()
        let wrong = "a wrong passcode of some length"
        needles.add("the wrong passcode", Array(wrong.utf8))
        needles.add("the keybag key", keys.keybagKey)
        needles.add("the effaceable secret", keys.effaceable)
        for (fileClass, key) in keys.classKeys { needles.add("the key of class \(fileClass.letter)", key) }
        #expect(throws: ControlError.self) { try volume.unlock(wrong) }
        try needles.expectNone(in: volume.processID)
        #expect(!volume.log.contains("wrong passcode of"))
      }
    }

    /// The command ends after each of its calls: the store opens as before, or is erased. There is no state in between.
    @Test(arguments: [nil, ProtectionClass.completeUntilFirstUserAuthentication])
    func erasedOrNot(_ fileClass: ProtectionClass?) throws {
      try Volume.store { volume in
        let faults = try Faults(of: volume)
        let before = try volume.ownFiles()
        let words = fileClass.map { ["--class", $0.name, "--passcode-file", volume.passcodeFile.description] } ?? []
        var wasErased = false
        for number in Faults.places {
          try volume.putBack(before)
          let (result, hit) = try volume.erase(faults, .end, at: number, words)
          guard let hit else {
            #expect(result.succeeded, "\(result.output)")
            break
          }
          let place = "after call \(number), \(hit)"
          let isErased = try volume.ownFiles()["keybag"] != before["keybag"]
          #expect(volume.refusal(of: nil)?.code == (isErased && fileClass == nil ? "store-erased" : nil), "\(place)")
          #expect(isErased || !wasErased, "\(place): it was erased before")
          wasErased = isErased
          // Whoever has the store next finishes it: then the old keybag is of no use.
          try volume.repair()
          if isErased {
            let after = try volume.ownFiles()
            try volume.putBack(before.merging(["effaceable": after["effaceable"] ?? []]) { $1 })
            #expect(volume.refusal(of: nil)?.code == "effaceable-secret-missing", "\(place)")
          }
        }
        #expect(wasErased)
      }
    }

    /// The same if no keybag can be written to a new file, so that everything is overwritten: a later mount reports the
    /// erasure.
    @Test func erasedOrNotWithoutRoom() throws {
      try Volume.store { volume in
        let faults = try Faults(of: volume)
        let before = try volume.ownFiles()
        try volume.backing.appending(".protectfs/keybag.new").makeDirectory()
        var wasErased = false
        for number in Faults.places {
          try volume.putBack(before)
          let (result, hit) = try volume.erase(faults, .end, at: number)
          let place = "after call \(number), \(hit ?? "none")"
          if volume.refusal(of: nil) == nil {
            #expect(!wasErased, "\(place): it was erased before")
          } else {
            wasErased = true
            let failure = try #require(throws: MountFailure.self, "\(place)") { try volume.mount() }
            #expect(failure.output.contains("erased on"), "\(place): \(failure.output)")
          }
          if hit == nil {
            #expect(result.succeeded && wasErased, "\(result.output)")
            break
          }
        }
      }
    }

    /// From some call on there is no room, even to overwrite: the store is erased, or unchanged and reported so.
    @Test func erasedOrAsItWas() throws {
      try Volume.store { volume in
        let faults = try Faults(of: volume)
        let before = try volume.ownFiles()
        var outcomes: Set<Bool> = []
        for number in 1... {
          try volume.putBack(before)
          let (result, hit) = try volume.erase(faults, .failOn(.noSpace), at: number, of: .room)
          let place = "from call \(number), \(hit ?? "none"): \(result.output)"
          let code = volume.refusal(of: nil)?.code
          outcomes.insert(code == nil)
          if code == nil {
            #expect(!result.succeeded && result.output.contains("as it was"), "\(place)")
          } else {
            #expect(["store-erased", "effaceable-secret-missing"].contains(code), "\(place)")
            #expect(result.succeeded || !result.output.contains("as it was"), "\(place)")
          }
          if hit == nil { break }
        }
        #expect(outcomes == [true, false])
      }
    }

    /// After the set number of wrong passcodes, a mounted store is erased while in use.
    @Test func erasesItself() throws {
      try Volume.store(initOptions: ["--erase-after", "4"]) { volume in
        try volume.mount()
        try volume.unlock()
        let file = try ErasedFile(of: .completeUntilFirstUserAuthentication, on: volume)
        for wrong in ["a", "b", "b", "c"] {
          #expect(try #require(throws: ControlError.self) { try volume.unlock(wrong) }.code == .wrongPasscode)
        }
        try file.expectContents()
        #expect(try #require(throws: ControlError.self) { try volume.unlock("d") }.code == .storeErased)
        file.expectRevoked()
        #expect(throws: ControlError.self) { try volume.unlock(recoveryKey: volume.recoveryKey) }
      }
    }

    /// Also if the attempts are made beside the daemon, which learns of them without any request.
    @Test(arguments: [["key", "test"], ["keybag", "export", "--backup", "/dev/null/none"]])
    func erasesItselfUnderTheDaemon(_ words: [String]) throws {
      try Volume.store(initOptions: ["--erase-after", "4"]) { volume in
        try volume.mount()
        try volume.unlock()
        var files = try ProtectionClass.allCases.map { try ErasedFile(of: $0, on: volume) }
        for (passcode, status) in [("a", 3), ("b", 3), ("c", 3), ("d", 21)] as [(String, Int32)] {
          for file in files { try file.expectContents() }
          let file = try volume.passcodeFile("wrong", passcode)
          let result = try Command.run(
            words + ["--passcode-file", file, "--device-key", volume.deviceKey.description]
              + [volume.mountPoint.description])
          #expect(result.ending == .exited(status), "\(result.output)")
        }
        eventually { volume.log.contains("the store was erased") }
        for file in files { file.expectRevoked() }
        #expect(throws: Errno.self) { try volume.path("new").write("lost") }
        #expect(try #require(throws: ControlError.self) { try volume.unlock(Volume.passcode) }.code == .storeErased)
        files = []
      }
    }

    /// A read-only mount has keys too.
    @Test func othersErasureReachesAMountThatOnlyReads() throws {
      try Volume.with(["-o", "allow_other,ro"]) { volume in
        let before = try volume.status().classes.count { $0.key == .available }
        #expect(before > 0)
        let result = try Command.run([
          "erase", "--yes", "--device-key", volume.deviceKey.description, volume.backing.description,
        ])
        #expect(result.succeeded, "\(result.output)")
        eventually { volume.log.contains("the store was erased") }
        #expect(volume.log.contains("the store was erased"))
      }
    }
  }
}

/// A file of a class that is open and mapped while its key is erased.
private final class ErasedFile {
  let fileClass: ProtectionClass
  private let path: PathName
  private let file: OpenFile
  private let mapping: Mapping
  private let contents: [UInt8]

  init(of fileClass: ProtectionClass, on volume: Volume) throws {
    self.fileClass = fileClass
    let directory = volume.path(fileClass.letter)
    try directory.makeDirectory(of: fileClass)
    path = directory.appending("file")
    contents = pattern(Int(fileClass.rawValue), count: 20_000)
    try path.write(contents)
    try path.setExtendedAttribute("user.note", to: [1, 2, 3])
    file = try OpenFile(path, O_RDWR)
    mapping = try Mapping(file, count: 20_000)
    #expect(try mapping.read(at: 0, count: 100) == Array(contents[..<100]))
  }

  func expectContents() throws {
    #expect(try path.contents() == contents)
  }

  /// Opening fails with `EKEYREVOKED`, and open handles yield nothing. Metadata works.
  func expectRevoked() {
    #expect(throws: keyRevoked) { try OpenFile(path, O_RDONLY) }
    #expect(throws: keyRevoked) { try OpenFile(path, O_WRONLY | O_TRUNC) }
    #expect(throws: keyRevoked) { try path.truncate(to: 1) }
    #expect(throws: keyRevoked) { try path.extendedAttribute("user.note") }
    #expect(throws: keyRevoked) { try path.setExtendedAttribute("user.note", to: [4]) }
    #expect(throws: Errno.self) { try file.read(at: 0, count: 16) }
    #expect(throws: Errno.self) { try file.write([1], at: 0) }
    #expect(throws: Errno.self) { try mapping.read(at: 8192, count: 16) }
    #expect(throws: Never.self) {
      #expect(try path.status().size == 20_000)
      #expect(try path.extendedAttribute(PathName(ProtectionClass.attributeName)) == Array(fileClass.name.utf8))
      try path.setMode(0o600)
      let other = PathName(bytes: Array(path.bytes) + Array(".moved".utf8))
      try path.rename(to: other)
      try other.rename(to: path)
    }
  }
}
