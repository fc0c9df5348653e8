import MountDaemon
import Testing

@testable import protectfs

/// What the command says of arguments that the parser refuses, and what shells complete.
struct UsageHintTests {
  @Test(arguments: [
    (["moutn", "b", "m"], "Unexpected argument 'moutn'. Did you mean 'mount'?"),
    (["stat"], "Unexpected argument 'stat'. Did you mean 'status'?"),
    (["umont", "--lazy", "m"], "Unexpected argument 'umont'. Did you mean 'umount'?"),
    (["passcode", "chnage", "m"], "Unexpected argument 'chnage'. Did you mean 'change'?"),
    (["--json", "status"], "Unknown option '--json'. Options go behind the subcommand: protectfs status --json"),
    (
      ["--json", "class", "get", "m/a b"],
      "Unknown option '--json'. Options go behind the subcommand: protectfs class get --json 'm/a b'"
    ),
    (
      ["key", "--passcode-file", "pw", "test", "b"],
      "Unknown option '--passcode-file'. Options go behind the subcommand: protectfs key test --passcode-file pw b"
    ),
  ])
  func meantIsNamed(_ arguments: [String], _ hint: String) {
    #expect(UsageHint.hint(for: arguments) == hint)
  }

  @Test(arguments: [[], ["frobnicate"], ["x"], ["--json"], ["status", "--jsno"], ["lock"], ["key"]] as [[String]])
  func nothingIsGuessed(_ arguments: [String]) {
    #expect(UsageHint.hint(for: arguments) == nil)
  }

  @Test(arguments: [("", "ab", 2), ("mount", "mount", 0), ("chnage", "change", 1), ("lokc", "unlock", 3)])
  func typosAreCounted(_ word: String, _ other: String, _ count: Int) {
    #expect(word.typos(to: other) == count && other.typos(to: word) == count)
  }

  @Test(arguments: [
    ("/srv/a-b_c.d", "/srv/a-b_c.d"), ("", "''"), ("a b", "'a b'"), ("it's", #"'it'\''s'"#), ("$x", "'$x'"),
    ("é", "'é'"), ("a\n'\\", #"$'a\u000a\'\\'"#),
  ])
  func wordsAreQuotedForAShell(_ text: String, _ word: String) {
    #expect(text.shellQuoted == word)
  }

  @Test func mountOptionsAreCompleted() throws {
    #expect(MountOptionNames.candidates(for: "gr").contains("grace=10"))
    let further = MountOptionNames.candidates(for: "grace=5,allow_other,r")
    #expect(further.contains("grace=5,allow_other,ro") && !further.contains { $0.hasSuffix("grace=10") })
    for word in MountOptionNames.words {
      // Where a value is missing, it is a file's name.
      let list = try MountOptionList([word.hasSuffix("=") ? word + "x" : word])
      #expect(list.mount.fuseOptions.isEmpty, "\(word) is not one of ours")
    }
  }

  @Test(arguments: [("roo", "ro"), ("grave=3", "grace"), ("allow_othre", "allow_other"), ("at-rest=72h", "at_rest")])
  func misspelledMountOptionsAreNamed(_ option: String, _ meant: String) {
    #expect(MountOptionNames.meant(by: option) == meant)
  }

  /// Those of libfuse and of the kernel's module, and of file systems in general.
  @Test(arguments: [
    "allow_root", "auto_unmount", "async", "blkdev", "clone_fd", "context=x", "debug", "default_permissions", "dev",
    "dirsync", "exec", "fscontext=x", "max_idle_threads=9", "max_read=131072", "nodev", "noexec", "nosuid", "suid",
    "sync", "x",
  ])
  func optionsOfOthersAreNotTakenForOurs(_ option: String) {
    #expect(MountOptionNames.meant(by: option) == nil)
  }

  @Test(arguments: [
    (0, "one two three"), (80, "one two three"), (9, "one two\nthree"), (3, "one\ntwo\nthree"),
  ])
  func linesAreBrokenAtBlanks(_ columns: Int, _ text: String) {
    #expect("one two three".wrapped(to: columns) == text)
  }

  @Test func aCommandStaysInOneLine() {
    let text = "the mount's daemon is gone; 'protectfs unmount /m' cleans up, or ('umount -l /m')"
    #expect(
      text.wrapped(to: 30) == """
        the mount's daemon is gone;
        'protectfs unmount /m' cleans
        up, or ('umount -l /m')
        """)
    #expect("type 'a b c d e f'".wrapped(to: 6) == "type\n'a b c d e f'")
  }
}
