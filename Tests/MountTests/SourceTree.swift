import ProtectfsIO
import SystemPackage
import Testing

/// A plaintext tree with one item of each kind that can be restored.
struct SourceTree {
  let path: PathName
  private let volume: Volume

  /// Creates it beside a volume.
  ///
  /// - Parameter stride: the distance between the ten pieces of data in the file with holes, in bytes.
  init(beside volume: Volume, count: Int = 3, stride: Int = 3_000_000) throws {
    self.volume = volume
    path = volume.directory.appending("source")
    try path.makeDirectory()
    // Like that of the mount's root, which is not changed.
    try path.setMode(volume.mountPoint.status().mode & 0o7777)
    try volume.shell(
      """
      printf hello > file; : > empty
      for i in $(seq 10); do printf "data $i" | dd of=holes bs=1 seek=$((i * \(stride))) conv=notrunc status=none; done
      truncate -s \(stride * 35 / 3 + 1) holes
      head -c 2100007 /dev/urandom > random
      mkdir -p d/e d/closed d/sticky
      for i in $(seq \(count)); do echo "$i" > "d/e/$i"; done
      ln random d/linked; ln file d/e/linked; ln -s file link; ln -s /nowhere/at/all d/dangling
      mkfifo d/fifo; mknod d/null c 1 3
      printf x > $'a\\nname'; printf y > $'\\xff\\xfe'
      printf long > "$(printf 'n%.0s' $(seq 255))"; mkdir "d/$(printf 'm%.0s' $(seq 255))"
      setfattr -n user.one -v 1 file; setfattr -n user.two -v 2 file; setfattr -n user.three -v 3 d/e
      setfacl -m u:1000:r,g:1001:rw file 2>/dev/null; setfacl -d -m u:1000:rx d/e
      chown 1000:1001 d/e/1; chmod 4711 d/e/1; chmod 0 empty; chmod 1777 d/sticky; chown -h 5:6 link
      touch -d '2001-02-03 04:05:06.123456789' file d/e/2 d; touch -hd '1999-01-01 00:00:00.5' link
      echo in > d/closed/in; chmod 555 d/closed
      """, in: "source")
  }

  /// Whether the mounted tree equals this one: contents, holes excluded, and all metadata.
  func expectRestored(_ comment: Comment = "", sourceLocation: SourceLocation = #_sourceLocation) throws {
    let result = try Program.run([
      "rsync", "-aHAXcni", "--specials", "--devices", "--delete", "--modify-window=-1",
      // The root of a mount always lists its class.
      "--filter=-x user.protectfs.class", "\(path)/",
      "\(volume.mountPoint)/",
    ])
    #expect(result.succeeded && result.output.isEmpty, "\(comment): \(result.output)", sourceLocation: sourceLocation)
  }

  /// Checks that each file is complete, or was there before: nothing incomplete has a real name.
  func expectNothingPartial(_ comment: Comment, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let script = """
      cd "$1"; find . -type f ! -name '.*.protectfs-new' -print0 | while IFS= read -r -d '' f; do
        if head -c 0 "$f" 2>/dev/null; then cmp "$f" "$2/$f"; fi
      done
      """
    let result = try Program.run(["bash", "-c", script, "-", volume.mountPoint.description, path.description])
    #expect(result.succeeded && result.output.isEmpty, "\(comment): \(result.output)", sourceLocation: sourceLocation)
  }
}

extension Volume {
  /// Makes the command create its temporary directories beside the volume.
  var temporaryDirectory: [String: String] { ["TMPDIR": directory.description] }

  /// Runs `protectfs restore` into the mount.
  func restore(
    from source: PathName, _ options: [String] = [], environment: [String: String] = [:]
  ) throws -> Program.Result {
    try Program.run(
      [Command.path, "restore", "--from", source.description, mountPoint.description] + options,
      environment: environment.merging(temporaryDirectory) { own, _ in own })
  }

  /// The options that open a copy of the store.
  var openingOptions: [String] {
    ["--passcode-file", passcodeFile.description, "--device-key", deviceKey.description]
  }
}
