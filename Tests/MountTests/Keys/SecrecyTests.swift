import CSystemCalls
import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

extension MountTests {
  /// What the daemon keeps secret.
  @Suite struct SecrecyTests {
    /// Bits of each byte of each record are flipped on a small store: the file is refused for the right reason, and
    /// nothing else is.
    @Test(arguments: ProtectionClass.allCases) func everyFlippedByteOfARecordIsRefused(
      _ fileClass: ProtectionClass
    ) throws {
      // Shared: nothing of the backing directory is kept in memory.
      try Volume.with(["-o", "shared,allow_other"]) { volume in
        let directory = volume.path("directory")
        try directory.makeDirectory(of: fileClass)
        let (file, neighbour) = (directory.appending("file"), directory.appending("neighbour"))
        let contents = pattern(1, count: 5000)
        try file.write(contents)
        try neighbour.write("fine")
        try withFlips(ofRecordOf: file, on: volume) { place in
          #expect(throws: Errno.ioError, place) { try OpenFile(file, O_RDONLY) }
          #expect(throws: Errno.ioError, place) { try file.setProtectionClass(.none) }
        }
        #expect(try file.contents() == contents)
        try withFlips(ofRecordOf: directory, on: volume) { place in
          #expect(throws: Errno.ioError, place) { try OpenFile(directory.appending("new"), O_CREAT | O_RDWR) }
        }
        #expect(try neighbour.contents() == Array("fine".utf8))
      }
    }

    /// Calls `body` with two bits of each byte of a record flipped, one after another, and restores the record.
    private func withFlips(ofRecordOf path: PathName, on volume: Volume, _ body: (Comment) -> Void) throws {
      let attribute = PathName(FileRecord.attributeName)
      let backing = try volume.backingFile(of: path)
      let record = try backing.extendedAttribute(attribute)
      for index in record.indices {
        for mask in [0x01, 0x80] as [UInt8] {
          var flipped = record
          flipped[index] ^= mask
          try backing.setExtendedAttribute(attribute, to: flipped)
          body("byte \(index)")
        }
      }
      try backing.setExtendedAttribute(attribute, to: record)
    }

    /// Each byte of the store's own files is flipped: the store does not open, or the flip has no effect.
    @Test func everyFlippedByteOfTheStoresOwnFiles() throws {
      try Volume.store { volume in
        let before = try volume.ownFiles()
        let classKeys = try StoreKeys(of: volume).classKeys
        for (name, bytes) in before {
          // The second copy is not read, so a few bytes of it are enough.
          let places =
            switch name {
            case "keybag": Array(bytes.indices)
            case "effaceable": Array(0..<32) + Array(4096..<4128) + [5000, 8192]
            default: Array(stride(from: 0, to: bytes.count, by: 32))
            }
          for index in places where index < bytes.count {
            var flipped = bytes
            flipped[index] ^= 0x41
            try volume.putBack(before.merging([name: flipped]) { $1 })
            let opened = try? StoreKeys(of: volume).classKeys
            #expect(opened == (name == "keybag" ? nil : classKeys), "\(name), byte \(index)")
            // This is noticed before a passcode is checked, which would take long.
            if name == "keybag" { #expect(volume.refusal() != nil, "byte \(index)") }
          }
        }
      }
    }

    /// A store copied without its device key, with the right passcode.
    @Test func aCopyWithoutTheDeviceKeyDoesNotOpen() throws {
      try Volume.with { volume in
        try volume.path("file").write("x")
        try volume.unmount()
        let other = volume.directory.appending("other.key")
        try other.write((0..<32).map { _ in UInt8.random(in: 0...255) }, mode: 0o600)
        for words in [
          ["mount", volume.backing.description, volume.mountPoint.description], ["info"], ["key", "test"],
        ] {
          let secret = words[0] == "info" ? [] : ["--passcode-file", volume.passcodeFile.description]
          let target = words[0] == "mount" ? [] : [volume.backing.description]
          for (key, status) in [(other.description, 10), (volume.directory.appending("no.key").description, 9)] {
            let result = try Command.run(words + secret + ["--device-key", key] + target)
            if words[0] == "info" {
              #expect(result.output.contains("not checked"), "\(result.output)")
            } else {
              #expect(result.ending == .exited(CInt(status)), "\(words): \(result.output)")
            }
          }
        }
        #expect(!volume.isMounted)
      }
    }

    /// Another user of the machine gets no state, lock, unlock or key, and no mount of another user.
    @Test func otherUsersGetNothing() throws {
      try Volume.with { volume in
        try volume.path("file").write("mine", mode: 0o600)
        try volume.directory.setMode(0o755)
        let other = ["setpriv", "--reuid", "4321", "--regid", "4321", "--clear-groups"]
        func run(_ words: String...) throws -> Program.Result { try Program.run(other + words) }
        let protectfs = volume.directory.appending("protectfs")
        try protectfs.write(PathName(Command.path).contents(), mode: 0o755)
        let passcode = volume.directory.appending("known")
        try passcode.write(Volume.passcode, mode: 0o600)
        try passcode.setOwner(user: 4321, group: 4321)
        for words in [
          ["lock", "--now"], ["unlock", "--passcode-file", passcode.description], ["status"], ["events"],
          ["hooks", "--directory", "/"],
          ["erase", "--yes"], ["rotate", "--class", "A", "--passcode-file", passcode.description],
          ["key", "test", "--passcode-file", passcode.description],
        ] {
          let result = try Program.run(other + [protectfs.description] + words + [volume.mountPoint.description])
          #expect(!result.succeeded, "\(words): \(result.output)")
          #expect(result.ending != .exited(3), "\(words): \(result.output)")
        }
        #expect(try volume.status().state == .unlocked)
        for path in [volume.deviceKey, volume.path("file"), volume.backing.appending(".protectfs/keybag")] {
          #expect(try !run("cat", path.description).succeeded)
        }
        #expect(try !run("cat", "/proc/\(volume.processID)/mem").succeeded)
        #expect(try !run("cat", "/proc/\(volume.processID)/environ").succeeded)
        #expect(try volume.path("file").contents() == Array("mine".utf8))
      }
    }

    /// The daemon's core, as root's debugger writes it, contains none of the secrets that a lock wipes.
    @Test(.enabled(if: Program.isInstalled("gcore"), "gcore is not installed"))
    func nothingIsInACore() throws {
      try Volume.with(unlocked: false) { volume in
        try volume.unlock(Volume.passcode)
        let plaintext = try Plaintext(of: .complete, on: volume)
        let keys = try StoreKeys(of: volume)
        #expect(throws: ControlError.self) { try volume.unlock("a wrong passcode of some length") }
        try volume.lock()
        let core = volume.directory.appending("core")
        let dumped = try Program.run(["gcore", "-o", core.description, "\(volume.processID)"])
        try #require(dumped.succeeded, "\(dumped.output)")
        let bytes = try volume.directory.appending("core.\(volume.processID)").contents()
        #expect(bytes.count > 1 << 20)
        let secrets: [(String, [UInt8])] = [
          ("the key of class A", keys.classKeys[.complete]!), ("the keybag key", keys.keybagKey),
          ("the effaceable secret", keys.effaceable), ("the passcode", Array(Volume.passcode.utf8)),
          ("a wrong passcode", Array("a wrong passcode of some length".utf8)),
          ("a file's key", try keys.fileKeys(of: plaintext.files[0], on: volume)),
        ]
        for (name, secret) in secrets {
          for start in stride(from: 0, to: secret.count - 15, by: 16) {
            #expect(!bytes.holds(Array(secret[start..<start + 16])), "\(name), bytes from \(start)")
          }
        }
      }
    }

    /// The log at its most verbose, of a sequence with all kinds of secrets.
    @Test func logsTellNoSecret() throws {
      try Volume.with(["-o", "allow_other"], unlocked: false) { volume in
        try volume.unlock(Volume.passcode)
        let keys = try StoreKeys(of: volume)
        let secretName = "a name that nobody should read"
        let text = "contents that nobody should read"
        let directory = volume.path(secretName)
        try directory.makeDirectory(of: .completeUntilFirstUserAuthentication)
        let file = directory.appending("file")
        try file.write(text)
        try file.setExtendedAttribute("user.attribute name", to: Array("attribute value".utf8))
        try directory.appending("diary").write("kept")
        try directory.appending("diary").setProtectionClass(.complete)
        let inode = try directory.appending("diary").status().inode
        try directory.appending("link").makeSymbolicLink(to: "a target that nobody should read")
        #expect(throws: ControlError.self) { try volume.unlock("a wrong passcode of some length") }
        let other = try volume.passcodeFile("other", "another passcode to be kept")
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        #expect(try volume.command("key", ["add", "--new-passcode-file", other] + passcode).succeeded)
        #expect(try volume.rotate(.complete).succeeded)
        try volume.lock()
        // A refusal is logged only with class and inode number.
        let diary = directory.appending("diary")
        #expect(throws: Errno.permissionDenied) { try diary.contents() }
        // The log names a damaged file by its backing name.
        try volume.backingFile(of: file).setExtendedAttribute("user.cprotect", to: [1])
        _ = try? OpenFile(file, O_RDONLY)
        try volume.unlock(recoveryKey: volume.recoveryKey)
        try volume.unmount()
        let log = (1...9).compactMap { try? volume.directory.appending("log.\($0)").contents() }.joined()
        #expect(log.count > 100)
        #expect(Array(log).holds(Array("access denied class=complete code=257 inode=\(inode) pid=".utf8)))
        let words = [
          secretName, text, "attribute name", "attribute value", "a target that", Volume.passcode, "wrong passcode of",
          "another passcode to", volume.recoveryKey,
        ]
        for word in words {
          #expect(!Array(log).holds(Array(word.utf8)), "\(word)")
        }
        for (fileClass, key) in keys.classKeys { #expect(!Array(log).holds(key), "\(fileClass)") }
      }
    }

    @Test func pathsAreLoggedWhereThatIsWanted() throws {
      try Volume.with(["-o", "allow_other,log_paths"]) { volume in
        let file = volume.path("diary")
        try file.write("kept")
        try file.setProtectionClass(.complete)
        let inode = try file.status().inode
        try volume.lock()
        #expect(throws: Errno.permissionDenied) { try file.contents() }
        let line = "access denied class=complete code=257 inode=\(inode) path=/diary pid="
        #expect(volume.log.contains(line), "\(volume.log)")
      }
    }
  }
}

extension [UInt8] {
  /// Whether these bytes contain others, contiguously.
  fileprivate func holds(_ needle: [UInt8]) -> Bool {
    unsafe withUnsafeBytes { bytes in
      var start = 0
      while let found = unsafe memchr(bytes.baseAddress! + start, CInt(needle[0]), bytes.count - start) {
        let offset = unsafe found - UnsafeMutableRawPointer(mutating: bytes.baseAddress!)
        guard offset + needle.count <= bytes.count else { return false }
        if unsafe memcmp(found, needle, needle.count) == 0 { return true }
        start = offset + 1
      }
      return false
    }
  }
}
