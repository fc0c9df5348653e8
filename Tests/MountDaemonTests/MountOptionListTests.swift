import Testing

@testable import MountDaemon

@Suite struct MountOptionListTests {
  @Test func ownOptionsAreTaken() throws {
    let list = try MountOptionList([
      "grace=2.5,lock_delay=20,push_timeout=7,inactive=30,replace_class=move,remove_locked,shared,ro",
      "allow_other,nonempty,latency=system,threads=3,log_paths,transport=device",
      "log_file=/l,device_key=/k,sandbox=off,hooks=/h",
    ])
    #expect(list.mount.gracePeriod == .seconds(2.5))
    #expect(list.mount.lockDelay == .seconds(20))
    #expect(list.mount.pushTimeout == .seconds(7))
    #expect(list.mount.inactivityPeriod == .seconds(30))
    #expect(!list.mount.keepsReplacedClass && !list.mount.keepsLocked)
    #expect(list.mount.isShared && list.mount.isReadOnly && list.mount.allowsOthers && list.mount.logsPaths)
    #expect(list.coversContents)
    #expect(list.mount.latency == .system)
    #expect(list.mount.transport == .device)
    #expect(!list.mount.isConfined)
    #expect(list.mount.threads == 3)
    #expect(list.logFile == "/l")
    #expect(list.deviceKeyFile == "/k")
    #expect(list.hooks == "/h")
    #expect(list.mount.fuseOptions.isEmpty)
  }

  @Test func laterOptionsCount() throws {
    #expect(try MountOptionList(["grace=1", "grace=2"]).mount.gracePeriod == .seconds(2))
    // mount(8) puts the mount's options before the requested ones.
    #expect(try MountOptionList(["rw,relatime,remount,ro"]).mount.isReadOnly)
    #expect(try !MountOptionList(["ro,relatime,remount,rw"]).mount.isReadOnly)
    #expect(try MountOptionList(["remount,ro"]).isRemount)
  }

  @Test(
    arguments: [
      ("off", nil), ("600s", 600), ("10m", 600), ("72h", 259_200), ("30d", 2_592_000), ("720h", 2_592_000),
    ] as [(String, Int?)])
  func aTimeUntilRestHasAUnit(_ value: String, _ seconds: Int?) throws {
    #expect(try MountOptionList(["at_rest=1d,at_rest=\(value)"]).mount.restPeriod == seconds.map { .seconds($0) })
  }

  @Test func optionsForOthersAreIgnored() throws {
    let list = try MountOptionList([
      "defaults,noauto,auto,nofail,_netdev,user,user=me,users,owner,group,rw,comment=x,x-gvfs-show,x-a=b,X-mount.mkdir",
      "atime,noatime,diratime,nodiratime,relatime,norelatime,strictatime,nostrictatime,lazytime,nolazytime",
      "silent,loud,iversion,noiversion,mand,nomand",
    ])
    #expect(try list == MountOptionList([]))
  }

  @Test(arguments: [
    ("dev,nosuid", ["dev", "nosuid"]), ("max_read=4096", ["max_read=4096"]), (",,exec,", ["exec"]),
    ("shared=1", ["shared=1"]), (#"context=a\,b,exec"#, [#"context=a\,b"#, "exec"]), (#"a\\,b"#, [#"a\\"#, "b"]),
  ])
  func othersGoToTheKernel(_ options: String, _ left: [String]) throws {
    #expect(try MountOptionList([options]).mount.fuseOptions == left)
  }

  @Test(arguments: [
    (#"/a\,b"#, "/a,b"), (#"/a\\"#, #"/a\"#), (#"/a\\\,b"#, #"/a\,b"#), (#"/a\b"#, #"/a\b"#),
    ("/a\u{301}\\,\u{301}b", "/a\u{301},\u{301}b"), ("\u{301}", "\u{301}"),
  ])
  func commasInPathsAreEscaped(_ escaped: String, _ path: String) throws {
    let list = try MountOptionList(["log_file=\(escaped),ro"])
    #expect(list.logFile.map { Array($0.utf8) } == Array(path.utf8))
    #expect(list.mount.isReadOnly)
  }

  /// libfuse compares bytes, so a character that combines with a comma must not hide an option.
  @Test func combiningMarksHideNothing() throws {
    let list = try MountOptionList(["exec,\u{301}a,ro,\u{20E3}"])
    #expect(list.mount.fuseOptions == ["exec", "\u{301}a", "\u{20E3}"])
    #expect(list.mount.isReadOnly)
  }

  @Test(arguments: [
    "at_rest", "at_rest=", "at_rest=72", "at_rest=9m", "at_rest=599s", "at_rest=31d", "at_rest=-1h", "at_rest=h",
    "at_rest=1.5h", "at_rest=99999999999999999999d", "at_rest=9223372036854775807d", "at_rest=on",
    "grace", "grace=", "grace=x", "grace=-1", "grace=nan", "grace=1e9", "inactive=1h", "lock_delay=61", "lock_delay=-1",
    "push_timeout=0", "push_timeout=3601",
    "replace_class", "replace_class=both", "latency", "latency=0", "sandbox", "sandbox=no", "threads=0", "threads=x",
    "log_file", "device_key=", "hooks", "hooks=", "subtype=x", "fsname=/srv",
  ])
  func valuesThatCannotBeMeantAreNamed(_ option: String) {
    var failure: MountOptionError?
    do throws(MountOptionError) { _ = try MountOptionList(["ro,\(option)"]) } catch { failure = error }
    #expect(failure?.message.contains("'\(option)'") == true)
  }
}
