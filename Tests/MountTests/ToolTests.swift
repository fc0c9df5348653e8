import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

/// The condition for a test of a tool: the tool is installed.
private func tools(_ names: String...) -> ConditionTrait {
  let missing = names.filter { !Program.isInstalled($0) }
  if !missing.isEmpty { print("skipped: \(missing.joined(separator: ", ")) not installed") }
  return .enabled(if: missing.isEmpty, "not installed: \(missing.joined(separator: ", "))")
}

extension Volume {
  /// Runs a shell script in the mounted tree, and expects every command in it to succeed. `$W` is a directory outside
  /// the mount.
  func shell(_ script: String, in directory: String = "mount", sourceLocation: SourceLocation = #_sourceLocation) throws
  {
    let outside = self.directory.appending("work")
    if !outside.exists { try outside.makeDirectory() }
    let result = try Program.run(
      ["bash", "-euo", "pipefail", "-c", script], in: self.directory.appending(directory).description,
      environment: [
        "HOME": outside.description, "W": outside.description, "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
      ])
    #expect(result.succeeded, "\(result.ending): \(result.output.suffix(2000))", sourceLocation: sourceLocation)
  }
}

extension MountTests {
  /// Common tools on the mount, without a single unexpected error.
  @Suite struct ToolTests {
    /// A backing directory, or a backup of one, can be kept on a mount: records of that store are extended attributes
    /// like others there.
    @Test func keepsAStore() throws {
      try Volume.with { volume in
        try Volume.with { kept in
          try kept.path("file").write("kept")
          try kept.unmount()
          try volume.shell("cp -a '\(kept.backing)' copy && rsync -aX '\(kept.backing)/' synchronised")
          for copy in ["copy", "synchronised"] {
            let check = try Program.run(
              [
                Command.path, "fsck", volume.path(copy).description, "--device-key", kept.deviceKey.description,
                "--passcode-file", kept.passcodeFile.description,
              ])
            #expect(check.succeeded, "\(check.output)")
          }
          let made = try Program.run([
            Command.path, "init", volume.path("new").description, "--passcode-file", kept.passcodeFile.description,
            "--device-key", volume.directory.appending("another.key").description,
          ])
          #expect(made.succeeded, "\(made.output)")
        }
      }
    }

    /// A store that lies on the mount of another is meant where its backing directory is given, mounted or not.
    @Test func aStoreOnAMountIsNotTheMounts() throws {
      try Volume.with { volume in
        try Volume.with { kept in
          try kept.unmount()
          try volume.shell("cp -a '\(kept.backing)' inner")
          let (inner, keybag) = (volume.path("inner"), ".protectfs/keybag")
          let secrets = ["--passcode-file", kept.passcodeFile.description]
          let keys = ["--device-key", kept.deviceKey.description]
          let (own, others) = (inner.appending(keybag), volume.backing.appending(keybag))
          let before = (try own.contents(), try others.contents())
          let new = try kept.passcodeFile("new", "another passcode")
          let change = ["passcode", "change", inner.description, "--new-passcode-file", new]
          let changed = try Command.run(change + secrets + keys)
          #expect(changed.succeeded, "\(changed.output)")
          #expect(try own.contents() != before.0 && others.contents() == before.1)
          #expect(try Command.run(["lock", "--now", inner.description]).ending == .exited(6))
          #expect(try volume.status().state == .unlocked)

          let mounted = try SecondMount(
            of: volume, "second", backing: inner, deviceKey: kept.deviceKey, options: "allow_other")
          #expect(try Command.run(["unlock", inner.description, "--passcode-file", new]).succeeded)
          try mounted.path("file").write("x")
          try mounted.path("file").setProtectionClass(.complete)
          #expect(try Command.run(["lock", "--now", inner.description]).succeeded)
          #expect(throws: Errno.permissionDenied) { try mounted.path("file").contents() }
          #expect(try volume.status().state == .unlocked)
          try mounted.end()
        }
      }
    }

    @Test(tools("git")) func git() throws {
      try Volume.with { volume in
        try volume.shell(
          """
          git init -q -b main $W/origin && cd $W/origin
          for i in $(seq 300); do mkdir -p d$((i % 17)); seq $((i * 13)) > d$((i % 17))/f$i; done
          git add . && git commit -qm one
          """)
        try volume.shell(
          """
          git clone -q $W/origin clone && cd clone
          git fsck --full --strict
          for i in $(seq 100); do echo changed >> d$((i % 17))/f$i; done
          git commit -qam two
          git mv d1 moved && git commit -qm three
          git checkout -q -b side HEAD~1 && echo side > side && git add side && git commit -qm side
          git merge -q -m merge main
          git gc -q --aggressive --prune=now
          git fsck --full --strict
          test -z "$(git status --porcelain)"
          git stash list && git worktree add -q ../tree main && test -f ../tree/moved/f1
          """)
        // Again without caches, as it is on disk.
        try volume.remount()
        try volume.unlock()
        try volume.shell("cd clone && git fsck --full --strict && git status --porcelain | wc -l | grep -qx 0")
      }
    }

    @Test(tools("tar", "diff")) func tarOfThousandsOfFiles() throws {
      try Volume.with { volume in
        try volume.shell(
          """
          mkdir $W/tree && cd $W/tree
          for d in $(seq 40); do mkdir -p a$d/b/c; for f in $(seq 75); do
            head -c $((d * f * 7 % 9000)) /dev/zero | tr '\\0' x > a$d/b/c/file.$f
          done; done
          ln -s a1/b link; ln a1/b/c/file.1 hard; mkfifo fifo; chmod 741 a2; chmod 4755 a3/b/c/file.3
          truncate -s 1000003 sparse; echo end >> sparse
          tar cf ../tree.tar .
          """)
        try volume.shell(
          """
          mkdir tree && tar xpf $W/tree.tar -C tree
          diff -r --no-dereference --exclude=fifo $W/tree tree
          test "$(stat -c %h tree/hard)" = 2; test -p tree/fifo; test "$(stat -c %a tree/a3/b/c/file.3)" = 4755
          """)
        try volume.remount()
        try volume.unlock()
        try volume.shell(
          """
          diff -r --no-dereference --exclude=fifo $W/tree tree
          (cd $W/tree && find . -printf '%p %m %s %T@ %n %y\\n' | grep -v ' d$' | sort) > $W/expected
          (cd tree && find . -printf '%p %m %s %T@ %n %y\\n' | grep -v ' d$' | sort) > $W/found
          sed -i 's/\\(\\.[0-9]*\\) \\([0-9]* .\\)$/ \\2/' $W/expected $W/found
          diff $W/expected $W/found
          tar cf - tree | tar tf - | wc -l
          rm -r tree && test ! -e tree
          """)
      }
    }

    @Test(tools("rsync", "setfattr", "setfacl", "getfacl", "diff")) func rsyncThereAndBack() throws {
      try Volume.with { volume in
        try volume.shell(
          """
          mkdir -p $W/from/sub && cd $W/from
          for i in $(seq 200); do seq $i > sub/f$i; done
          ln sub/f1 hard; ln -s sub/f2 link; truncate -s 5M hole; printf x >> hole
          setfattr -n user.colour -v blue sub/f3; setfattr -n user.empty sub/f4
          setfacl -m u:1234:rw sub/f5; setfacl -d -m g:567:rx sub; chown 1000:1000 sub/f6; chmod 2751 sub
          touch -d '2001-02-03 04:05:06.789012345' sub/f7
          """)
        try volume.shell(
          """
          rsync -aHAX $W/from/ there/
          rsync -aHAXcn --itemize-changes $W/from/ there/ > $W/difference; cat $W/difference; test ! -s $W/difference
          """)
        try volume.remount()
        try volume.unlock()
        try volume.shell(
          """
          rsync -aHAX there/ $W/back/
          rsync -aHAXcn --delete --itemize-changes $W/from/ $W/back/ > $W/difference
          cat $W/difference; test ! -s $W/difference
          """)
      }
    }

    @Test(tools("sqlite3"), arguments: ["wal", "delete", "truncate", "persist"])
    func sqlite(journal: String) throws {
      try Volume.with { volume in
        try volume.shell(
          """
          sqlite3 -batch db "PRAGMA journal_mode=\(journal); CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);"
          insert() { for i in $(seq 20); do
            sqlite3 -batch -cmd '.timeout 20000' db "BEGIN IMMEDIATE;
              WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
              INSERT INTO t(v) SELECT randomblob(777) FROM n; COMMIT;"
          done; }
          insert & first=$!; insert & second=$!
          wait $first; wait $second
          sqlite3 -batch db "UPDATE t SET v = randomblob(1500) WHERE k % 3 = 0; DELETE FROM t WHERE k % 7 = 0; VACUUM;"
          test "$(sqlite3 -batch db 'PRAGMA integrity_check; SELECT count(*) > 1500 FROM t')" = $'ok\\n1'
          """)
        try volume.remount()
        try volume.unlock()
        try volume.shell("test \"$(sqlite3 -batch db 'PRAGMA integrity_check')\" = ok")
      }
    }

    @Test(tools("find", "sort", "grep", "dd", "cmp", "flock", "split")) func everydayTools() throws {
      try Volume.with { volume in
        try volume.shell(
          """
          seq 200000 > numbers; sort -R numbers | sort -n | cmp - numbers
          dd if=numbers of=copy bs=7777 conv=fsync status=none; cmp numbers copy
          dd if=numbers of=direct bs=64K oflag=direct conv=notrunc status=none 2> /dev/null || dd if=numbers of=direct bs=64K status=none
          cmp numbers direct
          split -b 100000 numbers part.; cat part.* | cmp - numbers
          grep -c 99 numbers > count; find . -name 'part.*' -delete; test "$(ls part.* 2> /dev/null | wc -l)" = 0
          flock lock -c 'flock -n lock -c true && exit 1 || exit 0'
          cp --sparse=always /dev/null empty; cp --reflink=auto numbers reflink; cmp numbers reflink
          mkdir -p a/b/c && mv a/b/c a/d && test -d a/d; df . > /dev/null; du -s . > /dev/null
          """)
      }
    }
  }
}
