import Foundation
import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// The checker on stores written by a mount.
  @Suite struct FsckTests {
    private func fsck(_ volume: Volume, _ options: [String] = []) throws -> Program.Result {
      try Command.run(["fsck", volume.backing.description, "--device-key", volume.deviceKey.description] + options)
    }

    @Test(.enabled(if: Program.isInstalled("git"), "git is not installed")) func aUsedStoreIsClean() throws {
      try Volume.with { volume in
        try volume.shell(
          """
          git init -q -b main repository && cd repository
          for i in $(seq 200); do mkdir -p d$((i % 7)); seq $((i * 13)) > d$((i % 7))/f$i; done
          git add . && git commit -qm one && git gc -q --aggressive --prune=now
          git mv d1 moved && git commit -qm two && git checkout -q HEAD~1
          """)
        try volume.shell(
          """
          long=$(printf 'n%.0s' {1..250})
          mkdir $long && echo x > $long/$long && mv $long/$long $long/${long:5} && ln $long/${long:5} $long.link
          ln -s $long/target link; mkfifo fifo; touch gone$long && rm gone$long; mkdir d$long && rmdir d$long
          for c in A B C D CX; do echo $c > class.$c; \(Command.path) class set $c class.$c; done
          for i in $(seq 40); do head -c $i /dev/zero > length.$i; done
          echo closed > closed; chmod 0 closed; truncate -s 1G sparse; : > empty
          """)
        try volume.path("class.A").setExtendedAttribute("user.note", to: Array("of a file".utf8))
        try volume.path("repository").setExtendedAttribute("user.note", to: [])
        let mounted = try fsck(volume)
        #expect(mounted.ending == .exited(8))
        #expect(mounted.output.contains("unmount it first: protectfs unmount \(volume.mountPoint)"))
        try volume.unmount()
        for options in [
          [], ["--repair"], ["--passcode-file", volume.passcodeFile.description], ["--json"],
        ] {
          let result = try fsck(volume, options)
          #expect(result.ending == .exited(0), "\(options): \(result.output)")
          let clean = options == ["--json"] ? "{\"findings\":[]," : "0 errors, 0 notes"
          #expect(result.output.contains(clean), "\(options): \(result.output)")
        }
      }
    }

    /// A whole sequence: a file is damaged, found, and moved away, and everything else keeps working.
    @Test func aRepairedStoreMounts() throws {
      try Volume.with { volume in
        try volume.shell("mkdir d; echo kept > d/kept; echo lost > d/lost")
        let backing = try volume.backingFile(of: volume.path("d/lost"))
        try volume.unmount()
        try backing.setExtendedAttribute("user.cprotect", to: [1, 2, 3])
        try volume.backing.appending(".protectfs/keybag.previous").unlink()
        #expect(try fsck(volume).ending == .exited(4))
        let repaired = try fsck(volume, ["--repair", "--json"])
        #expect(repaired.ending == .exited(1))
        for text in [
          "\"code\":\"file-record-malformed\"", "\"path\":\"/d/lost\"", "\"code\":\"keybag-previous-missing\"",
          "\"movedTo\":\"/.protectfs/lost+found/",
        ] { #expect(repaired.output.contains(text), "\(text) in \(repaired.output)") }
        #expect(try fsck(volume).ending == .exited(0))
        try volume.mount()
        try volume.unlock()
        try volume.shell("test \"$(cat d/kept)\" = kept; test \"$(ls d)\" = kept; echo lost > d/lost")
      }
    }

    /// More files than are open at a time, read by several threads: what is found is of the file where it is, in order.
    @Test func contentsAreReadOnRequest() throws {
      try Volume.store(initOptions: ["--authenticated"]) { volume in
        try volume.mount()
        try volume.unlock()
        let counts = (0..<70).map { 10_000 + $0 } + [3 << 20]
        let files = counts.indices.map { volume.path("f\($0)") }
        for (file, count) in zip(files, counts) { try file.write(pattern(3, count: count)) }
        let backing = try [5, 66, 70, 40].map { try volume.backingFile(of: files[$0]) }
        try volume.unmount()
        let passcode = ["--passcode-file", volume.passcodeFile.description]
        let sound = try fsck(volume, ["--contents", "--json"] + passcode)
        #expect(sound.ending == .exited(0))
        #expect(sound.output.contains("\"bytesRead\":\(counts.reduce(0, +))"), "\(sound.output)")

        // A page, the ends of all pages of a file, and two pages of a group that is not the first.
        for (file, offset) in [(0, 8192), (1, 4096), (2, 2 << 20), (2, 2 << 20 + 12_288)] {
          let file = try OpenFile(backing[file], O_RDWR)
          let byte = try file.read(at: offset, count: 1)
          try file.write([byte[0] ^ 1], at: offset)
        }
        try backing[3].truncate(to: 13_096)
        let damaged = try fsck(volume, ["--contents", "--json"] + passcode)
        #expect(damaged.ending == .exited(4))
        let count = { (text: String) in damaged.output.components(separatedBy: text).count - 1 }
        #expect(count("\"code\":\"contents-damaged\"") == 3 && count("\"code\":\"length-altered\"") == 1)
        #expect(count("\"code\"") == 4)
        // The page 512 of the backing file is page 508 of the contents.
        let places = ["bytes 4096 to 8191:", "bytes 0 to 8191:", "bytes 2080768 to 2084863 and 4096 more:"]
        for (path, place) in zip(["/f5", "/f66", "/f70"], places) {
          let line = damaged.output.split(separator: "\n").first { $0.contains("\"path\":\"\(path)\"") }
          #expect(line?.contains(place) == true, "\(path), \(place): \(damaged.output)")
        }
        #expect(damaged.output.contains("\"path\":\"/f40\""))

        #expect(try fsck(volume, ["--accept-lengths"] + passcode).ending == .exited(16))
        #expect(try fsck(volume, ["--repair", "--accept-lengths"] + passcode).ending == .exited(1))
        #expect(try fsck(volume, passcode).ending == .exited(0))
        try volume.mount()
        try volume.unlock()
        #expect(try files[40].contents() == pattern(3, count: 4904))
        #expect(throws: Errno.ioError) { () throws in _ = try files[66].contents() }
        let name = String(backing[1].description.split(separator: "/").last!)
        let lines = volume.log.split(separator: "\n")
        let line = lines.first { $0.contains("a page is not what was written in bytes 0 to") }
        #expect(line?.contains(name) == true, "\(volume.log)")
        let rest = Array(pattern(3, count: 10_005)[8192...])
        #expect(try OpenFile(files[5], O_RDONLY).read(at: 8192, count: 1813) == rest)
      }
    }

    @Test func withTheRecoveryKeyNoDeviceKeyIsNeeded() throws {
      try Volume.with { volume in
        try volume.shell("echo a > a")
        try volume.unmount()
        let file = volume.directory.appending("recovery")
        try file.write(volume.recoveryKey, mode: 0o600)
        let result = try Command.run(
          ["fsck", volume.backing.description, "--recovery-key-file", file.description])
        #expect(result.ending == .exited(0), "\(result.output)")
        #expect(try fsck(volume, ["--nonsense"]).ending == .exited(16))
        try file.write("wrong")
        #expect(try fsck(volume, ["--passcode-file", file.description]).ending == .exited(8))
      }
    }

    @Test(.enabled(if: getuid() == 0, "only root may mount")) func otherFileSystemsAreLeftAlone() throws {
      try Volume.with { volume in
        try volume.path("d").makeDirectory()
        let backing = try volume.backingFile(of: volume.path("d"))
        try volume.unmount()
        #expect(try Program.run(["mount", "-t", "tmpfs", "none", backing.description]).succeeded)
        defer { try? backing.unmount(isLazy: true) }
        try backing.appending("foreign").write("x")
        let result = try fsck(volume, ["--repair", "--json"])
        #expect(result.ending == .exited(4))
        #expect(result.output.contains("other-file-system") && !result.output.contains("foreign-entry"))
      }
    }
  }
}
