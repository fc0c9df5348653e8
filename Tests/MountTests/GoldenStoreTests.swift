import Foundation
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Stores made by released versions: each must stay readable for ever. An archive contains `backing`, `device.key`
  /// and `passcode`. Its name is the version of the format, and the first feature that it has. With
  /// `PROTECTFS_KEEP_STORES=1` in the environment, a missing archive is created: an authenticated store with
  /// `PROTECTFS_TEST_AUTHENTICATED` too.
  @Suite struct GoldenStoreTests {
    static let versions = ["version-2", "version-2.authenticated"]

    /// Creates the tree, the same in every directory.
    static let tree = """
      bytes() { yes "line of $2" | head -c "$1" || true; }
      for size in 0 1 15 16 17 31 4095 4096 4097 4111 4112 8192 70000; do bytes $size $size > "file of $size"; done
      mkdir -p directory/below "$(printf 'd%.0s' {1..255})" A B C D CX empty
      bytes 5000 long > "$(printf 'n%.0s' {1..175})"
      bytes 5000 longer > "$(printf 'n%.0s' {1..176})"
      bytes 5000 longest > "$(printf 'd%.0s' {1..255})/$(printf 'n%.0s' {1..255})"
      bytes 100 odd > $'new\\nline and \\377'
      truncate -s 1000000 sparse; bytes 100 end | dd of=sparse bs=1 seek=500000 conv=notrunc status=none
      ln "file of 17" directory/below/hard
      ln -s ../target directory/link; ln -s "$(printf '../%.0s' {1..1018})" long; ln -s "$(printf '../%.0s' {1..1019})" longer
      mkfifo -m 640 fifo; chmod 2750 directory; chmod 444 "file of 16"; touch -d '1969-07-20 20:17:40.5 UTC' "file of 1"
      setfattr -n user.note -v remark "file of 4096"; setfattr -n user.note -v '' directory
      setfattr -n user.$(printf 'a%.0s' {1..200}) -v long "file of 0"
      """
    /// Lists everything in it but owners and the times of its creation.
    static let listing = """
      find . -mindepth 1 -printf '%p %y %m %n %l %s\\n' | sed 's/ d \\([0-9]*\\) \\([0-9]*\\) .*/ d \\1 \\2/' | sort
      find . -type f -print0 | sort -z | xargs -0 sha256sum
      find . -newermt '1900-01-01' ! -newermt '1970-01-01' -printf '%p %T@\\n'
      getfattr -hR -m '^user[.][^p]' -d . | sort
      """
    /// Directories whose class is set before a file is made in them.
    static let classes: [ProtectionClass] = [.complete, .completeUnlessOpen, .none, .completeWhenUserInactive]

    @Test(arguments: versions) func isReadForEver(_ version: String) throws {
      let archive = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("Stores/\(version).tar.gz").path
      if ProcessInfo.processInfo.environment["PROTECTFS_KEEP_STORES"] == "1" { try Self.keep(archive) }
      try #require(FileManager.default.fileExists(atPath: archive), "no store is kept")
      try Volume.store { volume in
        try volume.shell("rm -r backing device.key passcode", in: ".")
        try volume.shell(
          "tar -xzf '\(archive)' --xattrs --xattrs-include='user.*' --no-same-owner; mkdir plain", in: ".")
        try volume.mount()
        #expect(try volume.path("D/file").contents() == Array("none\n".utf8), "class D needs no passcode")
        #expect(throws: Errno.permissionDenied) { try volume.path("file of 1").contents() }
        try volume.unlock(Volume.passcode)
        try volume.shell(Self.tree, in: "plain")
        for fileClass in Self.classes {
          let file = volume.path("\(fileClass.letter)/file")
          #expect(try file.contents() == Array("\(fileClass.name)\n".utf8))
          #expect(try file.protectionClass() == fileClass)
          #expect(try volume.path(fileClass.letter).protectionClass() == fileClass)
          try volume.shell("echo \(fileClass.name) > \(fileClass.letter)/file", in: "plain")
        }
        #expect(try volume.path("file of 1").protectionClass() == .completeUntilFirstUserAuthentication)
        let (found, expected) = (try Self.list(volume.mountPoint), try Self.list(volume.directory.appending("plain")))
        #expect(found.count > 60 && Set(found).symmetricDifference(expected).sorted() == [])
        try volume.unmount()
        try volume.mount()
        try volume.unlock(
          recoveryKey: String(decoding: volume.directory.appending("recovery").contents(), as: UTF8.self))
        #expect(try volume.status().state == .unlocked)
      }
    }

    private static func list(_ directory: PathName) throws -> [String] {
      let result = try Program.run(
        ["bash", "-euo", "pipefail", "-c", listing], in: directory.description,
        environment: ["LC_ALL": "C", "PATH": "/usr/bin:/bin"])
      try #require(result.succeeded, "\(result.output)")
      return result.output.split(separator: "\n").map(String.init)
    }

    /// Creates the archive of this version's format, if it does not exist.
    private static func keep(_ archive: String) throws {
      guard !FileManager.default.fileExists(atPath: archive) else { return }
      try Volume.with { volume in
        try volume.shell(tree)
        for fileClass in classes {
          try volume.path(fileClass.letter).setProtectionClass(fileClass)
          try volume.shell("echo \(fileClass.name) > \(fileClass.letter)/file")
        }
        try volume.unmount()
        try volume.directory.appending("recovery").write(volume.recoveryKey)
        let parts = "backing device.key passcode recovery"
        try volume.shell("mkdir -p '\(URL(fileURLWithPath: archive).deletingLastPathComponent().path)'", in: ".")
        try volume.shell(
          "tar -cSzf '\(archive)' --xattrs --xattrs-include='user.*' --owner=0 --group=0 --numeric-owner \(parts)",
          in: ".")
      }
    }
  }
}
