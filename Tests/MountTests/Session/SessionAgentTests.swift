import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// `protectfs session` on a bus of its own. It runs in a mount namespace where there is only the mount of the test.
  @Suite(
    .enabled(if: getuid() == 0, "only root has a mount namespace"),
    .enabled(if: LoginBus.isInstalled, "dbus-daemon or python3-dbusmock is not installed"))
  struct SessionAgentTests {
    private struct Stage {
      let volume: Volume
      let bus: LoginBus
      let agent: Program

      /// The time from now until the file of class A is refused.
      func waitUntilRefused() throws -> Duration {
        let begin = ContinuousClock.now
        while (try? volume.path("a").contents()) != nil {
          try #require(ContinuousClock.now < begin + .seconds(10), "not locked: \(agent.output)")
          usleep(500)
        }
        #expect(throws: Errno.permissionDenied) { try volume.path("a").contents() }
        return .now - begin
      }

      /// Checks that what is sent locks the mount within 200 ms: once of three times, as the machine may be busy with
      /// something else.
      func expectRefusal(location: SourceLocation = #_sourceLocation, after send: () throws -> Void) throws {
        var times: [Duration] = []
        repeat {
          if !times.isEmpty { try volume.unlock() }
          try send()
          times.append(try waitUntilRefused())
        } while times.count < 3 && times.last! >= .milliseconds(200)
        #expect(times.last! < .milliseconds(200), "\(times)", sourceLocation: location)
      }

      /// Checks that nothing that has been sent locks the mount.
      func expectUnlocked(_ location: SourceLocation = #_sourceLocation) throws {
        usleep(300_000)
        #expect(try volume.status().state == .unlocked, "\(agent.output)", sourceLocation: location)
      }
    }

    private func with(
      _ options: [String] = [], mount: [String] = ["-o", "allow_other,grace=600"],
      hooks: (Hooks) throws -> Void = { _ in }, before: (LoginBus) throws -> Void = { _ in },
      _ body: (Stage) throws -> Void
    ) throws {
      try Volume.store { volume in
        let scripts = try Hooks(in: volume.directory)
        try hooks(scripts)
        try volume.mount(["-o", "hooks=\(scripts.directory)"] + mount)
        try volume.unlock()
        for (name, fileClass) in [("a", ProtectionClass.complete), ("cx", .completeWhenUserInactive), ("c", .standard)]
        {
          try volume.path(name).write("text")
          try fileClass.assign(toItemAt: volume.path(name).description)
        }
        let bus = try LoginBus(in: volume.directory)
        try before(bus)
        // The mounts and daemons of other tests are not for this agent.
        let script = """
          awk '$0 ~ / - fuse.protectfs / && $5 != "'"$0"'" { print $5 }' /proc/self/mountinfo |
            while read -r other; do umount -l "$other"; done
          mkdir "$1" && mount -t tmpfs -o mode=700 sockets "$1"
          find /run/protectfs -samefile "/run/protectfs/$2" | while read -r name; do
            : >"$1/${name##*/}" && mount --bind "$name" "$1/${name##*/}"
          done
          mount --rbind "$1" /run/protectfs
          shift 2
          exec "$@"
          """
        let socket = ControlSocket.name(forMountPoint: volume.mountPoint.description)
        let agent = try Program(
          [
            "unshare", "--mount", "--propagation", "private", "sh", "-c", script, volume.mountPoint.description,
            volume.directory.appending("sockets").description, socket, Command.path, "session", "--verbose",
          ] + options, environment: bus.environment, output: volume.directory.appending("log.agent"))
        defer {
          agent.send(SIGTERM)
          _ = agent.wait(seconds: 5)
        }
        try bus.waitUntilSleep(isDelayed: true)
        try body(Stage(volume: volume, bus: bus, agent: agent))
      }
    }

    @Test func locksWithTheSession() throws {
      try with { stage in
        let (volume, bus) = (stage.volume, stage.bus)
        for event in ["own.Lock()", "own.SetLockedHint(True)"] {
          try stage.expectRefusal { try bus.run("own.SetLockedHint(False); \(event)") }
          #expect(try volume.path("cx").contents() == Array("text".utf8), "class CX has its period")
          try bus.run("own.Unlock(); own.SetLockedHint(False)")
          #expect(try volume.status().state == .locked, "nothing unlocks")
          try volume.unlock()
        }
        for name in ["org.freedesktop.ScreenSaver", "org.gnome.ScreenSaver"] {
          try bus.run("signal('/ScreenSaver', '\(name)', 'ActiveChanged', False)")
          try stage.expectUnlocked()
          try stage.expectRefusal {
            try bus.run("signal('/org/gnome/ScreenSaver', '\(name)', 'ActiveChanged', True)")
          }
          try volume.unlock()
        }
      }
    }

    /// Another user's session, a property of another meaning, and what logind has not sent.
    @Test func passesOverWhatIsNotForIt() throws {
      try with { stage in
        try stage.bus.run("other.Lock(); other.SetLockedHint(True); own.SetLockedHint(False)")
        try stage.bus.run(
          """
          mock = proxy("/session/own", "org.freedesktop.DBus.Mock")
          mock.UpdateProperties(name + ".Session", {"IdleHint": True, "Type": "x11"})
          for to in [None, *filter(lambda each: each[0] == ":", bus.list_names())]:
              signal(path, name + ".Manager", "PrepareForSleep", True, to)
              signal(path + "/session/own", name + ".Session", "Lock", True, to)
          for value in ("LockedHint", 1):
              mock.EmitSignal("org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", dbus.Array(
                  [name + ".Session", dbus.Dictionary({"LockedHint": value}, "sv"), dbus.Array([], "s")], "v"))
          """)
        try stage.expectUnlocked()
        try stage.bus.run("own.Lock()")
        _ = try stage.waitUntilRefused()
      }
    }

    /// A session that was locked while nobody listened counts when its agent begins.
    @Test func locksWhatWasLockedBefore() throws {
      try with(before: { try $0.run("own.SetLockedHint(True); other.SetLockedHint(True)") }) { stage in
        let time = try stage.waitUntilRefused()
        #expect(time < .milliseconds(200))
      }
      try with(before: { try $0.run("other.SetLockedHint(True)") }) { stage in try stage.expectUnlocked() }
    }

    @Test func hasAGracePeriod() throws {
      try with(["--grace", "30"]) { stage in
        try stage.bus.run("own.Lock()")
        try stage.volume.wait(for: .gracePeriod)
        #expect(try stage.volume.status().secondsUntilRevoked ?? 600 <= 30)
        // Sleep does not wait for it.
        try stage.bus.run("sleep(True)")
        try stage.bus.waitUntilSleep(isDelayed: false)
        #expect(try stage.volume.status().state == .inactive)
      }
    }

    /// Classes A, B and CX are locked when sleep is not delayed any more, and no hook prolongs that.
    @Test func locksBeforeSleep() throws {
      try with(hooks: { try $0.add("pre-lock/slow", "sleep 60") }) { stage in
        for _ in 0..<2 {
          let begin = ContinuousClock.now
          try stage.bus.run("sleep(True)")
          try stage.bus.waitUntilSleep(isDelayed: false)
          #expect(ContinuousClock.now - begin < .seconds(3))
          #expect(try stage.volume.status().state == .inactive)
          #expect(throws: Errno.permissionDenied) { try stage.volume.path("cx").contents() }
          #expect(try stage.volume.path("c").contents() == Array("text".utf8))
          let open = try Descriptors.of(stage.agent.identifier)
          #expect(!open.contains { $0.hasPrefix("pipe:") }, "the inhibitor is open: \(open)")
          try stage.bus.run("sleep(False)")
          try stage.bus.waitUntilSleep(isDelayed: true)
          try stage.volume.unlock()
        }
      }
    }

    @Test func locksAllBeforeSleep() throws {
      try with(["--sleep-locks-all"]) { stage in
        try stage.bus.run("sleep(True)")
        try stage.bus.waitUntilSleep(isDelayed: false)
        #expect(try stage.volume.status().state == .beforeFirstUnlock)
        #expect(throws: Errno.permissionDenied) { try stage.volume.path("c").contents() }
      }
    }

    @Test func survivesARestartOfLogind() throws {
      try with { stage in
        for _ in 0..<2 {
          try stage.bus.restartLogind()
          try stage.bus.waitUntilSleep(isDelayed: true)
          try stage.expectRefusal { try stage.bus.run("own.Lock()") }
          try stage.volume.unlock()
        }
        try stage.bus.run("sleep(True)")
        try stage.bus.waitUntilSleep(isDelayed: false)
        #expect(try stage.volume.status().state == .inactive)
      }
    }

    /// What a sleep has ended is had again, also where logind refuses it for a moment.
    @Test func asksForADelayOfSleepAgain() throws {
      try with { stage in
        try stage.bus.run("sleep(True)")
        try stage.bus.waitUntilSleep(isDelayed: false)
        try stage.bus.run(
          """
          def add(method, signature, result, code):
              mock.AddMethod(name + ".Manager", method, signature, result, code)
          add("Keep", "", "", "type(self).kept = type(self).__dict__['Inhibit']")
          add("Accept", "", "", "self.accepts = True")
          logind.Keep()
          refusal = "raise dbus.exceptions.DBusException('not now', name='org.test.Refused')"
          add("Inhibit", "ssss", "h",
              f"if not hasattr(self, 'accepts'): {refusal}\\nret = type(self).kept(self, *args)")
          sleep(False)
          """)
        for _ in 0..<200 where !stage.agent.output.contains("not now") { usleep(10_000) }
        #expect(stage.agent.output.contains("sleep does not wait until files are locked: Inhibit"))
        #expect(try !stage.bus.isSleepDelayed())
        try stage.bus.run("logind.Accept()")
        try stage.bus.waitUntilSleep(isDelayed: true)
        try stage.volume.unlock()
        try stage.bus.run("sleep(True)")
        try stage.bus.waitUntilSleep(isDelayed: false)
        #expect(try stage.volume.status().state == .inactive)
      }
    }

    /// Both buses, which are one here.
    @Test func survivesTheLossOfTheBuses() throws {
      try with { stage in
        try stage.bus.restart()
        try stage.bus.waitUntilSleep(isDelayed: true)
        try stage.expectRefusal { try stage.bus.run("own.Lock()") }
        try stage.volume.unlock()
        let saver = "signal('/ScreenSaver', 'org.gnome.ScreenSaver', 'ActiveChanged', True)"
        let deadline = ContinuousClock.now + .seconds(10)
        while try stage.volume.status().state == .unlocked, .now < deadline { try stage.bus.run(saver) }
        #expect(try stage.volume.status().state == .locked, "\(stage.agent.output)")
      }
    }

    /// A session that is locked while there is no bus counts when there is one.
    @Test func locksWhatIsLockedWhenABusComes() throws {
      try with { stage in
        try stage.bus.restart()
        try stage.bus.run("own.SetLockedHint(True)")
        _ = try stage.waitUntilRefused()
      }
    }

    @Test func locksWithAScreenSaverThatIsActiveAlready() throws {
      for name in ["org.freedesktop.ScreenSaver", "org.gnome.ScreenSaver"] {
        try with(before: { try $0.startScreenSaver(name, isActive: true) }) { stage in
          let time = try stage.waitUntilRefused()
          #expect(time < .milliseconds(500))
        }
        try with(before: { try $0.startScreenSaver(name, isActive: false) }) { stage in try stage.expectUnlocked() }
      }
    }

    @Test func leavesTheMountsAsTheyAre() throws {
      for signal in [SIGKILL, SIGTERM] {
        try with { stage in
          stage.agent.send(signal)
          #expect(stage.agent.wait(seconds: 5) == (signal == SIGTERM ? .exited(0) : .killed(SIGKILL)))
          try stage.expectUnlocked()
          try stage.bus.waitUntilSleep(isDelayed: false)
        }
      }
    }

    // MARK: The desktop

    private func notifications(of desktop: Program?) -> [Substring] {
      (desktop?.output ?? "").split(separator: "\n").filter { $0.contains(" Notify ") }
    }

    /// Waits until there is one, and a little longer; or for so long.
    private func awaitNotification(of desktop: Program?, seconds: Int = 10) {
      for _ in 0..<seconds * 100 where notifications(of: desktop).isEmpty { usleep(10_000) }
      usleep(500_000)
    }

    /// Programs that are refused are named together.
    @Test(arguments: [true, false]) func saysWhoWasRefused(_ isOn: Bool) throws {
      var desktop: Program?
      try with(isOn ? [] : ["--no-notifications"], before: { desktop = try $0.startDesktop() }) { stage in
        try stage.volume.lock()
        // For so long that the agent listens by then.
        let script = "for n in 1 2 3 4 5; do read x <'\(stage.volume.path("a"))'; sleep 0.3; done"
        #expect(try Program.run(["sh", "-c", #"bash -c "$0" & sh -c "$0"; wait"#, script]).succeeded)
        guard isOn else {
          usleep(3_000_000)
          return #expect(notifications(of: desktop).isEmpty)
        }
        awaitNotification(of: desktop)
        let all = notifications(of: desktop)
        #expect(all.count == 1, "\(all)")
        #expect(all.first?.contains("\"bash, sh asked for files that are locked.") == true, "\(all)")
      }
    }

    @Test func saysThatALockIsDelayed() throws {
      var desktop: Program?
      try with(
        mount: ["-o", "allow_other,grace=0.5,lock_delay=30"], hooks: { try $0.add("pre-lock/slow", "sleep 60") },
        before: { desktop = try $0.startDesktop() }
      ) { stage in
        // The agent may not listen yet.
        for _ in 0..<5 where notifications(of: desktop).isEmpty {
          try stage.volume.announceLock(gracePeriod: .milliseconds(500))
          awaitNotification(of: desktop, seconds: 2)
          try stage.volume.unlock()
        }
        let all = notifications(of: desktop)
        #expect(all.count == 1, "\(all)")
        #expect(all.first?.contains("\(stage.volume.mountPoint) waits for a program") == true, "\(all)")
      }
    }

    /// libsystemd, and what it needs, is for the agent alone.
    @Test func noDaemonHasLibsystemd() throws {
      try with { stage in
        func libraries(of process: CInt) throws -> String {
          String(decoding: try ProcessStatus.read(PathName("/proc/\(process)/maps")), as: UTF8.self)
        }
        #expect(try libraries(of: stage.agent.identifier).contains("/libsystemd.so"))
        let daemon = try libraries(of: stage.volume.processID)
        #expect(daemon.contains("/libfuse3.so") && !daemon.contains("/libsystemd.so"))
      }
    }

    @Test func endsWithoutASystemBus() throws {
      let result = try Program.run(
        [Command.path, "session"], environment: ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"])
      #expect(result.ending == .exited(1) && result.output.contains("the system bus cannot be reached"))
    }
  }
}

/// The open files of a process.
private enum Descriptors {
  static func of(_ process: CInt) throws -> [String] {
    let directory = PathName("/proc/\(process)/fd")
    return try directory.names().map { name in
      String(decoding: (try? directory.appending("\(name)").symbolicLinkTarget()) ?? [], as: UTF8.self)
    }
  }
}
