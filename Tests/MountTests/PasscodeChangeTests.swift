import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// A new passcode changes the keybag, and nothing else.
  @Suite struct PasscodeChangeTests {
    @Test(arguments: [true, false]) func rewritesTheKeybagOnly(whileMounted: Bool) throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        for fileClass in ProtectionClass.allCases {
          try volume.path(fileClass.letter).makeDirectory(of: fileClass)
          for index in 0..<20 {
            try volume.path(fileClass.letter).appending("\(index)").write(pattern(index, count: index * 999))
          }
        }
        try volume.unmount()
        let before = try Self.snapshot(of: volume.backing)
        let keybag = try volume.backing.appending(".protectfs/keybag").contents()
        if whileMounted { try volume.mount() }

        let new = volume.directory.appending("new")
        try new.write("a new passcode\n", mode: 0o600)
        var arguments = [
          "passcode", "change", "--passcode-file", volume.passcodeFile.description, "--new-passcode-file",
          new.description,
        ]
        arguments +=
          whileMounted
          ? [volume.mountPoint.description]
          : ["--device-key", volume.deviceKey.description, volume.backing.description]
        let result = try Command.run(arguments)
        #expect(result.succeeded, "\(result.output)")

        if !whileMounted { try volume.mount() }
        #expect(try volume.backing.appending(".protectfs/keybag").contents() != keybag)
        #expect(throws: ControlError.self) { try volume.unlock(Volume.passcode) }
        #expect(try volume.status().state == .beforeFirstUnlock)
        try volume.unlock("a new passcode")
        try volume.remount()
        #expect(throws: ControlError.self) { try volume.unlock(Volume.passcode) }
        try volume.unlock(recoveryKey: volume.recoveryKey)
        try volume.lock()
        try volume.unlock(recoveryKey: volume.recoveryKey.lowercased().split(separator: "-").joined(separator: " "))
        for fileClass in ProtectionClass.allCases {
          for index in 0..<20 {
            #expect(
              try volume.path(fileClass.letter).appending("\(index)").contents() == pattern(index, count: index * 999))
          }
        }
        try volume.unmount()
        #expect(try Self.snapshot(of: volume.backing) == before)
      }
    }

    @Test func aWrongOldPasscodeChangesNothing() throws {
      try Volume.with(unlocked: false) { volume in
        let keybag = volume.backing.appending(".protectfs/keybag")
        let before = try keybag.contents()
        let wrong = volume.directory.appending("wrong")
        try wrong.write("a wrong one\n", mode: 0o600)
        let result = try Command.run([
          "passcode", "change", volume.mountPoint.description, "--passcode-file", wrong.description,
          "--new-passcode-file",
          wrong.description,
        ])
        #expect(result.ending == .exited(3), "\(result.output)")
        #expect(try keybag.contents() == before)
        try volume.unlock(Volume.passcode)
      }
    }

    /// Without passcode and device key: the recovery key opens the store, even on another machine.
    @Test func theRecoveryKeyReplacesBoth() throws {
      try Volume.store { volume in
        try volume.mount()
        try volume.unlock()
        try volume.path("file").write("still here")
        try volume.unmount()
        try volume.deviceKey.unlink()
        let (key, new) = (volume.directory.appending("recovery"), volume.directory.appending("new"))
        try key.write(volume.recoveryKey + "\n", mode: 0o600)
        try new.write("a new passcode\n", mode: 0o600)
        let changed = try Command.run([
          "passcode", "change", "--recovery-key-file", key.description, "--new-passcode-file", new.description,
          volume.backing.description,
        ])
        #expect(changed.succeeded, "\(changed.output)")
        for typo in ["0", String(volume.recoveryKey.dropLast()), "0" + volume.recoveryKey.dropFirst()]
        where typo != volume.recoveryKey {
          try key.write(typo, mode: 0o600)
          let refused = try Command.run([
            "passcode", "change", "--recovery-key-file", key.description, "--new-passcode-file", new.description,
            volume.backing.description,
          ])
          #expect(refused.ending == .exited(3), "\(typo): \(refused.output)")
        }
      }
    }

    /// Names, contents, lengths and attributes of all backing files but those in `.protectfs`.
    private static func snapshot(of backing: PathName) throws -> [PathName: [UInt8]] {
      var found: [PathName: [UInt8]] = [:]
      var directories = [backing]
      while let directory = directories.popLast() {
        for name in try directory.names() where name != ".protectfs" {
          let path = directory.appending(bytes: Array(name.bytes))
          let isDirectory = try path.status().mode & 0o170000 == 0o040000
          if isDirectory { directories.append(path) }
          found[path] = try path.extendedAttribute("user.cprotect") + (isDirectory ? [] : path.contents())
        }
      }
      return found
    }
  }
}

extension PathName {
  func write(_ text: String, mode: UInt32) throws(Errno) { try write(Array(text.utf8), mode: mode) }
}
