import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Hosts of a store, each with a passcode and classes of its own. Here they are mounts with files of their own in
  /// place of the device key.
  @Suite struct HostTests {
    private static let passcode = "a host's own passcode"

    /// Asks for a host, and accepts it; returns its file.
    private func addHost(
      _ name: String, _ classes: [ProtectionClass], to volume: Volume, _ words: [String] = []
    ) throws -> PathName {
      let file = volume.directory.appending("\(name).host")
      let code = volume.directory.appending("code of \(name)").description
      let asked = try Command.run(
        ["host", "add", "--name", name, "--device-key", file.description, "--code-file", code]
          + [
            "--classes", classes.map(\.letter).joined(separator: ","),
            "--new-passcode-file", volume.passcodeFile("secret of \(name)", Self.passcode), volume.backing.description,
          ])
      try #require(asked.succeeded, "\(asked.output)")
      let accepted = try volume.command(
        "host", ["accept", "--code-file", code, "--recovery-key-file", volume.recoveryKeyFile()] + words)
      try #require(accepted.succeeded, "\(accepted.output)")
      return file
    }

    private func reader(_ name: String, _ file: PathName, of volume: Volume) throws -> SecondMount {
      let reader = try SecondMount(of: volume, name, deviceKey: file, options: "ro")
      try reader.unlock(Self.passcode)
      return reader
    }

    private func makeFiles(on volume: Volume) throws {
      for fileClass in ProtectionClass.allCases {
        let directory = volume.path(fileClass.letter)
        try directory.makeDirectory()
        try directory.setProtectionClass(fileClass)
        try directory.appending("file").write("of class \(fileClass.letter)")
      }
    }

    @Test func aHostHasItsClassesAlone() throws {
      try Volume.with { volume in
        try makeFiles(on: volume)
        let own = try addHost("web1", [.completeUntilFirstUserAuthentication], to: volume)
        let reader = try reader("web1", own, of: volume)
        for fileClass in ProtectionClass.allCases {
          let file = reader.path(fileClass.letter).appending("file")
          if fileClass == .completeUntilFirstUserAuthentication || fileClass == .none {
            #expect(try file.contents() == Array("of class \(fileClass.letter)".utf8))
          } else {
            #expect(throws: Errno.permissionDenied, "\(fileClass)") { try OpenFile(file, O_RDONLY) }
          }
        }
        #expect(throws: ControlError.self, "the store's own passcode is not the host's") {
          try reader.unlock(Volume.passcode)
        }
        // Its file is gone: what was read from it holds, and nothing is wiped.
        let aside = volume.directory.appending("aside")
        try own.rename(to: aside)
        #expect(throws: ControlError.self) { try reader.unlock("a wrong passcode") }
        try reader.unlock(Self.passcode)
        for letter in ["C", "D"] {
          #expect(try reader.path("\(letter)/file").contents() == Array("of class \(letter)".utf8))
        }
        let list = try Command.run(["host", "list", "--json", volume.mountPoint.description])
        #expect(list.succeeded && list.output.contains("\"name\" : \"web1\""), "\(list.output)")
        #expect(!list.output.contains("\"isAccepted\" : false"), "the request was removed: \(list.output)")
      }
    }

    /// A rotation on one machine reaches a host that is unlocked, without its passcode; an erasure does too.
    @Test func aHostGoesOnWithNewKeys() throws {
      try Volume.with { volume in
        try makeFiles(on: volume)
        let (fileClass, secret) = (ProtectionClass.completeUntilFirstUserAuthentication, try volume.recoveryKeyFile())
        let reader = try reader("web1", addHost("web1", [fileClass], to: volume), of: volume)
        for number in 1...3 {
          let result = try Command.run(
            ["rotate", "--class", "C", "--recovery-key-file", secret, volume.mountPoint.description])
          #expect(result.succeeded, "\(result.output)")
          try volume.path("C/after \(number)").write("after \(number)")
          #expect(
            eventually { (try? reader.path("C/after \(number)").contents()) == Array("after \(number)".utf8) })
          #expect(try reader.path("C/file").contents() == Array("of class C".utf8))
        }
        let held = try OpenFile(reader.path("C/file"), O_RDONLY)
        let erased = try volume.command("erase", ["--yes", "--class", "C", "--recovery-key-file", secret])
        #expect(erased.succeeded, "\(erased.output)")
        #expect(
          eventually { failure { () throws(Errno) in _ = try OpenFile(reader.path("C/file"), O_RDONLY) } == keyRevoked }
        )
        #expect(
          eventually { failure { () throws(Errno) in _ = try held.read(at: 0, count: 100) } != nil }, "also open ones")
        try volume.path("C/last").write("last")
        #expect(eventually { (try? reader.path("C/last").contents()) == Array("last".utf8) })
      }
    }

    /// A class that a host is not to have any more is gone there, and has a new key; one that it is given comes with
    /// its next unlock.
    @Test func aHostGetsOtherClasses() throws {
      try Volume.with { volume in
        try makeFiles(on: volume)
        let reader = try reader(
          "web1", addHost("web1", [.complete, .completeUntilFirstUserAuthentication], to: volume), of: volume)
        let held = try OpenFile(reader.path("A/file"), O_RDONLY)
        let words = ["--recovery-key-file", try volume.recoveryKeyFile(), volume.mountPoint.description, "web1"]
        let set = try Command.run(["host", "set", "--classes", "C,B"] + words)
        #expect(set.succeeded && set.output.contains("Class A has a new key"), "\(set.output)")
        #expect(set.output.contains("B, C now, after its next unlock"), "\(set.output)")
        #expect(
          eventually {
            failure { () throws(Errno) in _ = try reader.path("A/file").contents() } == .permissionDenied
          })
        #expect(throws: Errno.permissionDenied, "also open files") { try held.read(at: 0, count: 100) }
        #expect(try reader.path("C/file").contents() == Array("of class C".utf8))
        let file = reader.path("B/file")
        #expect(throws: Errno.permissionDenied, "not before its unlock") { try OpenFile(file, O_RDONLY) }
        let status = try Command.run(["status", reader.mountPoint.description]).output
        #expect(status.contains("web1, with the keys of class B, C"), "\(status)")
        #expect(status.contains("A  complete                              not in memory"), "\(status)")
        try reader.unlock(Self.passcode)
        for letter in ["B", "C", "D"] {
          #expect(try reader.path("\(letter)/file").contents() == Array("of class \(letter)".utf8))
        }
        #expect(throws: Errno.permissionDenied) { try OpenFile(reader.path("A/file"), O_RDONLY) }
        // With the store's recovery key it has all keys, from which no host class key is known; what is taken goes.
        try reader.unlock()
        #expect(try reader.path("B/file").contents() == Array("of class B".utf8))
        let fewer = try Command.run(["host", "set", "--classes", "C"] + words)
        #expect(fewer.succeeded, "\(fewer.output)")
        #expect(
          eventually { failure { () throws(Errno) in _ = try reader.path("B/file").contents() } != nil })
        let more = try Command.run(["host", "set", "--classes", "B,C"] + words)
        #expect(more.succeeded, "\(more.output)")
        let same = try Command.run(["host", "set", "--classes", "B,C"] + words)
        #expect(same.succeeded && same.output.contains("already"), "\(same.output)")
        #expect(try volume.path("A/file").contents() == Array("of class A".utf8))
      }
    }

    /// Also by a keybag that is no later one than the host's: an earlier one was put back, and changed since.
    @Test func aClassIsTakenAfterAnEarlierKeybag() throws {
      try Volume.with { volume in
        try makeFiles(on: volume)
        let reader = try reader(
          "web1", addHost("web1", [.complete, .completeUntilFirstUserAuthentication], to: volume), of: volume)
        try volume.unmount()
        let secret = ["--recovery-key-file", try volume.recoveryKeyFile()]
        let (keybag, earlier) = (volume.backing.appending(".protectfs/keybag"), volume.directory.appending("earlier"))
        try earlier.write(keybag.contents())
        let passcode = try volume.passcodeFile("one more", "one more passcode")
        let added = try volume.command("key", ["add", "--new-passcode-file", passcode] + secret)
        try #require(added.succeeded, "\(added.output)")
        try #require(eventually { reader.output.contains("the keybag was changed by another host") })
        try earlier.rename(to: keybag)
        #expect(try reader.path("A/file").contents() == Array("of class A".utf8))
        _ = try Command.run(
          ["host", "set", "--classes", "C", "--device-key", volume.deviceKey.description] + secret
            + [volume.backing.description, "web1"])
        #expect(
          eventually { failure { () throws(Errno) in _ = try reader.path("A/file").contents() } == .permissionDenied })
        #expect(try reader.path("C/file").contents() == Array("of class C".utf8))
      }
    }

    /// Each locks for itself, and says so; one that is off is named.
    @Test func allHostsLock() throws {
      try Volume.with { volume in
        try makeFiles(on: volume)
        let reader = try reader("web1", addHost("web1", .ofHosts, to: volume), of: volume)
        let other = try addHost("web2", [.complete], to: volume)
        func lock(_ mountPoint: PathName, _ words: [String]) throws -> (output: String, status: CInt?) {
          let result = try Command.run(["lock", "--all-hosts"] + words + [mountPoint.description])
          return (result.output, result.succeeded ? 0 : 15)
        }
        func isReadable(_ letter: String) -> (writer: Bool, reader: Bool) {
          (
            (try? volume.path("\(letter)/file").contents()) != nil,
            (try? reader.path("\(letter)/file").contents()) != nil
          )
        }
        let late = try lock(volume.mountPoint, ["--timeout", "0"])
        #expect(late.output.contains("not known to be locked elsewhere") && late.output.contains("web2"), "\(late)")
        #expect(isReadable("A").writer == false)
        #expect(eventually { !isReadable("A").reader })
        #expect(isReadable("C") == (true, true))
        let second = try SecondMount(of: volume, "web2", deviceKey: other, options: "ro")
        try volume.unlock()
        for mount in [reader, second] { try mount.unlock(Self.passcode) }
        #expect(isReadable("A") == (true, true))
        // Any of them may ask.
        let all = try lock(second.mountPoint, ["--every-class"])
        #expect(all.status == 0, "\(all.output)")
        for letter in ["A", "C"] { #expect(isReadable(letter) == (false, false)) }
        // An earlier request that all have answered, put back while one of them is stopped, answers no other.
        let request = volume.backing.appending(".protectfs/lock")
        let (early, aside) = (try request.contents(), volume.backing.appending(".protectfs/aside"))
        reader.send(SIGSTOP)
        let asking = try Program(
          [Command.path, "lock", "--all-hosts", "--timeout", "2", volume.mountPoint.description],
          output: volume.directory.appending("asking"))
        #expect(eventually { (try? request.contents()) != early })
        try aside.write(early)
        try aside.rename(to: request)
        #expect(asking.wait() == .exited(15) && asking.output.contains("web1"), "\(asking.output)")
        reader.send(SIGCONT)
        // Whoever is unlocked afterwards stays so.
        try volume.unlock()
        try second.unlock(Self.passcode)
        #expect(try lock(reader.mountPoint, ["--inactive"]).status == 0)
        #expect(isReadable("A") == (false, false) && isReadable("C") == (true, false))
      }
    }

    /// One that is removed wipes its keys, those of class D too, and its file opens nothing.
    @Test func aRemovedHostWipesItsKeys() throws {
      try Volume.with { volume in
        try makeFiles(on: volume)
        let file = try addHost("web1", .ofHosts, to: volume)
        let reader = try reader("web1", file, of: volume)
        let other = try reader2(of: volume)
        var held: OpenFile? = try OpenFile(reader.path("A/file"), O_RDONLY)
        #expect(try held?.read(at: 0, count: 100) == Array("of class A".utf8))
        let removed = try Command.run(
          [
            "host", "remove", "--device-key", volume.deviceKey.description, "--recovery-key-file",
            volume.recoveryKeyFile(), volume.mountPoint.description, "web1",
          ])
        #expect(removed.succeeded, "\(removed.output)")
        for fileClass in ProtectionClass.allCases {
          let letter = fileClass.letter
          let file = reader.path("\(letter)/file")
          // What was wrapped anew is under a key that the keybag which it goes by does not have.
          let expected = fileClass == .none ? Errno.permissionDenied : keyMissing
          #expect(eventually { failure { () throws(Errno) in _ = try file.contents() } == expected }, "\(fileClass)")
          #expect(try volume.path("\(letter)/file").contents() == Array("of class \(letter)".utf8))
          #expect(removed.output.contains("Class \(letter) has a new key") == (fileClass != .none), "\(removed.output)")
        }
        #expect(throws: Errno.permissionDenied) { try held?.read(at: 0, count: 100) }
        held = nil
        #expect(throws: ControlError.self) { try reader.unlock(Self.passcode) }
        #expect(eventually { (try? other.path("A/file").contents()) == Array("of class A".utf8) }, "the other host")
        try reader.end()
        let again = try Command.run(
          [
            "mount", "--device-key", file.description, "-o", "ro", volume.backing.description,
            reader.mountPoint.description,
          ])
        #expect(!again.succeeded && again.output.contains("has no keys for this machine"), "\(again.output)")
      }
    }

    private func reader2(of volume: Volume) throws -> SecondMount {
      try reader("web2", addHost("web2", .ofHosts, to: volume), of: volume)
    }

    /// A host that the keybag in place does not know does not put an older one back, which does.
    @Test func aDroppedHostPutsNothingBack() throws {
      try Volume.store { volume in
        let file = try addHost("web1", .ofHosts, to: volume)
        let reset = try volume.command(
          "keybag", ["reset", "--yes", "--new-passcode-file", volume.passcodeFile("new", "another passcode")])
        #expect(reset.succeeded, "\(reset.output)")
        let keybag = volume.backing.appending(".protectfs/keybag")
        let bytes = try keybag.contents()
        for words in [["fsck", "--repair"], ["keybag", "restore", "--yes"], ["keybag", "reset", "--yes"]] {
          let extra =
            words == ["keybag", "reset", "--yes"]
            ? ["--new-passcode-file", try volume.passcodeFile("x", "one more")] : []
          let result = try Command.run(words + extra + ["--device-key", file.description, volume.backing.description])
          #expect(!result.succeeded, "\(words): \(result.output)")
          #expect(try keybag.contents() == bytes, "\(words)")
        }
      }
    }

    /// A request is withdrawn by its name, without a secret.
    @Test func aRequestIsWithdrawn() throws {
      try Volume.store { volume in
        let file = volume.directory.appending("own.host").description
        let code = volume.directory.appending("code").description
        let asked = try Command.run([
          "host", "add", "--name", "web1", "--classes", "A,CX", "--device-key", file, "--code-file", code,
          "--new-passcode-file", volume.passcodeFile("secret", Self.passcode), volume.backing.description,
        ])
        #expect(asked.succeeded, "\(asked.output)")
        let list = ["host", "list", volume.backing.description]
        #expect(try Command.run(list).output.contains("A CX      web1, asks to be a host"))
        let removed = try Command.run(["host", "remove", volume.backing.description, "web1"])
        #expect(removed.succeeded, "\(removed.output)")
        #expect(try Command.run(list).output.isEmpty)
        let accepted = try volume.command(
          "host", ["accept", "--code-file", code, "--recovery-key-file", volume.recoveryKeyFile()])
        #expect(accepted.output.contains("no machine asks to become a host"), "\(accepted.output)")
      }
    }

    /// A host that writes the store: what it makes opens everywhere.
    @Test func aHostWrites() throws {
      try Volume.with { volume in
        try makeFiles(on: volume)
        try volume.unmount()
        let file = try addHost("web1", .ofHosts, to: volume, ["--classes", "C"])
        let writer = try SecondMount(of: volume, "web1", deviceKey: file, options: "nodev")
        #expect(throws: Errno.permissionDenied) { try writer.path("C/new").write("before the first unlock") }
        let changed = try Command.run(
          [
            "passcode", "change", "--device-key", file.description, "--passcode-file",
            volume.passcodeFile("old", Self.passcode), "--new-passcode-file",
            volume.passcodeFile("new", "another one, its"),
            writer.mountPoint.description,
          ])
        #expect(changed.succeeded, "\(changed.output)")
        #expect(throws: ControlError.self) { try writer.unlock(Self.passcode) }
        try writer.unlock("another one, its")
        try writer.path("C/new").write("by the host")
        #expect(throws: Errno.permissionDenied) { try writer.path("A/new").write("not its class") }
        for words in [["rotate", "--class", "C"], ["erase", "--yes", "--class", "C"]] {
          let refused = try Command.run(
            words + ["--passcode-file", volume.passcodeFile("new", "another one, its"), writer.mountPoint.description])
          #expect(refused.output.contains("it changes no keys"), "\(refused.output)")
        }
        try writer.end()
        try volume.mount()
        try volume.unlock()
        #expect(try volume.path("C/new").contents() == Array("by the host".utf8))
      }
    }
  }
}
