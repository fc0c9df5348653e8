import Glibc
import ProtectfsClient
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// `lock --all` and mounts that it does not reach.
  @Suite(.enabled(if: getuid() == 0 && Program.isInstalled("unshare"), "only root may make a mount namespace"))
  struct OtherNamespaceTests {
    @Test func rootHearsOfAMountThatItDoesNotReach() throws {
      try Volume.with { volume in
        let command = try commandThatReaches(volume.mountPoint)
        try #require(command.count == 7)
        let namespace = try PathName("/proc/\(command[3])/ns/mnt").symbolicLinkTarget()
        #expect(try namespace == PathName("/proc/self/ns/mnt").symbolicLinkTarget())
        #expect(command == ["nsenter", "--mount", "--target", command[3], "protectfs", "lock", "--all"])
        #expect(try volume.status().state == .unlocked)
      }
    }

    /// What is to be typed locks it: a mount in namespaces of users and of mounts, with a `/run` of its own.
    @Test(
      .enabled(
        if: (try? Program.run(["unshare", "--user", "--map-root-user", "--mount", "true"]))?.succeeded == true,
        "user namespaces are not permitted"))
    func whatIsTypedReachesAMountOfOtherUsers() throws {
      let script = """
        mount -t tmpfs none /run && "$0" mount "$1" "$2" --device-key "$3" --passcode-file "$4" && echo there
        until [ -e "$5" ]; do sleep 0.05; done
        "$0" status "$2"; "$0" unmount "$2"
        """
      try Volume.store { volume in
        let end = volume.directory.appending("end")
        let files = [volume.backing, volume.mountPoint, volume.deviceKey, volume.passcodeFile, end].map(\.description)
        let other = try Program(
          ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c", script]
            + [Command.path] + files,
          output: volume.directory.appending("other"))
        defer {
          try? end.write("")
          _ = other.wait()
        }
        let deadline = ContinuousClock.now + .seconds(60)
        while !other.output.contains("there\n"), ContinuousClock.now < deadline { usleep(10_000) }
        let command = try commandThatReaches(volume.mountPoint)
        #expect(command.prefix(4) == ["nsenter", "--user", "--mount", "--target"])
        // There, mounts of others are seen whose daemons are not.
        _ = try Program.run(command.prefix(5) + [Command.path, "lock", "--all", "--now"])
        try end.write("")
        #expect(other.wait() == .exited(0))
        #expect(other.output.contains("\(volume.mountPoint): locked\n"), "\(other.output)")
      }
    }

    /// Anybody can say of a file system that it is a mount of a store. Its socket gets no passcode.
    @Test func aFalseMountOfAStoreIsNotBelieved() throws {
      let script = """
        \(Self.hidingAll)
        mount -t tmpfs none /mnt && mkdir /mnt/false && exec 3<>/dev/fuse &&
        mount -i -t fuse.protectfs -o fd=3,rootmode=40000,user_id=54321,group_id=54321 "$1" /mnt/false &&
        timeout -s KILL 60 "$0" key add --new-recovery-key "$1" --device-key "$2" --passcode-file "$3"
        """
      try Volume.store { volume in
        let files = [volume.backing, volume.deviceKey, volume.passcodeFile].map(\.description)
        let result = try Program.run(
          ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, Command.path] + files)
        #expect(result.succeeded, "\(result.output)")
      }
    }

    /// File systems of another user that never answer: one where that user's sockets would be, and one that says that
    /// it is a protectfs mount.
    @Test func othersThatNeverAnswerAreNotWaitedFor() throws {
      let script = """
        \(Self.hidingAll)
        mount -t tmpfs none /mnt && mkdir /mnt/false && exec 3<>/dev/fuse 4<>/dev/fuse &&
        options=rootmode=40000,user_id=54321,group_id=54321,allow_other &&
        mount -i -t fuse -o fd=3,$options none "$1" && mount -i -t fuse.protectfs -o fd=4,$options none /mnt/false &&
        "$0" mount "$2" "$3" --device-key "$4" --passcode-file "$5" --unlock || exit
        timeout -s KILL 60 "$0" lock --all --now; echo "lock: $?"
        "$0" status "$3"; "$0" unmount "$3"
        """
      try Volume.store { volume in
        let sockets: PathName = "/tmp/protectfs-54321"
        try sockets.makeDirectory()
        defer { try? sockets.removeDirectory() }
        let files = [sockets, volume.backing, volume.mountPoint, volume.deviceKey, volume.passcodeFile]
        let result = try Program.run(
          ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, Command.path]
            + files.map(\.description))
        #expect(result.succeeded && result.output.contains("\(volume.mountPoint): locked\n"), "\(result.output)")
        // What says that it is a mount could not be locked.
        #expect(result.output.contains("/mnt/false: ") && result.output.contains("lock: 13\n"), "\(result.output)")
      }
    }

    /// A mount that was copied into another namespace is one that is known.
    @Test func copiesOfKnownMountsAreNone() throws {
      try Volume.with { volume in
        let copy = try Program(
          ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo there; exec sleep 300"],
          output: volume.directory.appending("copy"))
        defer {
          copy.send(SIGKILL)
          _ = copy.wait()
        }
        while copy.output.isEmpty, copy.poll() == nil { usleep(1000) }
        let mount = try #require(try MountedFileSystem.at("\(volume.mountPoint)"))
        let others = ForeignMount.all(besides: []).filter { $0.mount.device == mount.device }
        #expect(others.count == 1)
        let unknown = ForeignMount.all(besides: [mount.device])
        #expect(unknown.allSatisfy { $0.mount.device != mount.device })
      }
    }

    /// In a mount namespace, takes away all mounts and control sockets.
    static let hidingAll = """
      awk '$0 ~ / - fuse.protectfs / { print $5 }' /proc/self/mountinfo |
        while read -r other; do umount -l "$other"; done
      for directory in /run /tmp/protectfs-[0-9]*; do
        [ ! -d "$directory" ] || mount -t tmpfs none "$directory"
      done
      """

    /// Locks all from a namespace in which no mount and no socket of another one is seen. Returns the words of what is
    /// to be typed for a mount.
    private func commandThatReaches(_ mountPoint: PathName) throws -> [String] {
      let script = "\(Self.hidingAll); exec \"$0\" lock --all --now"
      let result = try Program.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, Command.path])
      #expect(result.ending == .exited(13), "\(result.output)")
      let lines = result.output.split(separator: "\n").filter { $0.hasPrefix("protectfs: \(mountPoint): ") }
      #expect(lines.count == 1, "\(result.output)")
      return (lines.first?.split(separator: "'").dropFirst().first ?? "").split(separator: " ").map { String($0) }
    }
  }
}
