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

      /// Waits until the file of class A is refused, long before the mount's grace period would end.
      func waitUntilRefused(location: SourceLocation = #_sourceLocation) throws {
        try #require(
          eventually { failure { () throws(Errno) in _ = try volume.path("a").contents() } == .permissionDenied },
          "not locked: \(agent.output)", sourceLocation: location)
      }

      /// Waits until it listens to the daemon.
      func waitUntilItListens() throws {
        let tasks = PathName("/proc/\(agent.identifier)/task")
        try #require(
          eventually {
            try tasks.names().contains { task in
              (try? ProcessStatus.read(tasks.appending("\(task)/comm"))) == Array("events\n".utf8)
            }
          })
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
          try bus.run("own.SetLockedHint(False); \(event)")
          try stage.waitUntilRefused()
          #expect(try volume.path("cx").contents() == Array("text".utf8), "class CX has its period")
          try bus.run("own.Unlock(); own.SetLockedHint(False)")
          #expect(try volume.status().state == .locked, "nothing unlocks")
          try volume.unlock()
        }
        for desktop in ["freedesktop", "gnome", "cinnamon", "mate", "xfce"] {
          let name = "org.\(desktop).ScreenSaver"
          try bus.run("signal('/ScreenSaver', '\(name)', 'ActiveChanged', False)")
          try stage.expectUnlocked()
          try bus.run("signal('/org/gnome/ScreenSaver', '\(name)', 'ActiveChanged', True)")
          try stage.waitUntilRefused()
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
        try stage.waitUntilRefused()
      }
    }

    /// A session that was locked while nobody listened counts when its agent begins.
    @Test func locksWhatWasLockedBefore() throws {
      try with(before: { try $0.run("own.SetLockedHint(True); other.SetLockedHint(True)") }) { stage in
        try stage.waitUntilRefused()
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
      try with(
        mount: ["-o", "allow_other,grace=600,lock_delay=60"],
        hooks: { try $0.add("pre-lock/slow", "sleep 600") }
      ) { stage in
        for _ in 0..<2 {
          try stage.bus.run("sleep(True)")
          try stage.bus.waitUntilSleep(isDelayed: false)
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
          try stage.bus.run("own.Lock()")
          try stage.waitUntilRefused()
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
        eventually { stage.agent.output.contains("not now") }
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
        try stage.bus.run("own.Lock()")
        try stage.waitUntilRefused()
        try stage.volume.unlock()
        let saver = "signal('/ScreenSaver', 'org.gnome.ScreenSaver', 'ActiveChanged', True)"
        try eventually {
          try stage.bus.run(saver)
          return try stage.volume.status().state != .unlocked
        }
        #expect(try stage.volume.status().state == .locked, "\(stage.agent.output)")
      }
    }

    /// A session that is locked while there is no bus counts when there is one.
    @Test func locksWhatIsLockedWhenABusComes() throws {
      try with { stage in
        try stage.bus.restart()
        try stage.bus.run("own.SetLockedHint(True)")
        try stage.waitUntilRefused()
      }
    }

    @Test func locksWithAScreenSaverThatIsActiveAlready() throws {
      for name in ["org.freedesktop.ScreenSaver", "org.gnome.ScreenSaver", "org.xfce.ScreenSaver"] {
        try with(before: { try $0.startScreenSaver(name, isActive: true) }) { stage in
          try stage.waitUntilRefused()
        }
        try with(before: { try $0.startScreenSaver(name, isActive: false) }) { stage in try stage.expectUnlocked() }
      }
    }

    @Test func leavesTheMountsAsTheyAre() throws {
      for signal in [SIGKILL, SIGTERM] {
        try with { stage in
          stage.agent.send(signal)
          #expect(stage.agent.wait() == (signal == SIGTERM ? .exited(0) : .killed(SIGKILL)))
          try stage.expectUnlocked()
          try stage.bus.waitUntilSleep(isDelayed: false)
        }
      }
    }

    // MARK: The desktop

    private func notifications(of desktop: Program?) -> [Substring] {
      (desktop?.output ?? "").split(separator: "\n").filter { $0.contains(" Notify ") }
    }

    /// Waits until there is one, and a little longer.
    private func awaitNotification(of desktop: Program?) {
      eventually { !notifications(of: desktop).isEmpty }
      usleep(500_000)
    }

    /// Programs that are refused are named together.
    @Test(arguments: [true, false]) func saysWhoWasRefused(_ isOn: Bool) throws {
      var desktop: Program?
      try with(isOn ? [] : ["--no-notifications"], before: { desktop = try $0.startDesktop() }) { stage in
        try stage.volume.lock()
        if isOn { try stage.waitUntilItListens() }
        // Until the agent has told of them: it may just have begun to listen.
        let script = "while :; do read x <'\(stage.volume.path("a"))'; sleep 0.1; done"
        let programs = try ["bash", "sh"].map {
          try Program([$0, "-c", script], output: stage.volume.directory.appending("output.\($0)"))
        }
        defer {
          for program in programs {
            program.send(SIGKILL)
            _ = program.wait()
          }
        }
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
        mount: ["-o", "allow_other,grace=0.5,lock_delay=60"], hooks: { try $0.add("pre-lock/slow", "sleep 600") },
        before: { desktop = try $0.startDesktop() }
      ) { stage in
        try stage.waitUntilItListens()
        // It may just have begun to: once more, if nothing was said while the lock was delayed.
        for _ in 0..<2 where notifications(of: desktop).isEmpty {
          try stage.volume.announceLock(gracePeriod: .milliseconds(500))
          try eventually { try !notifications(of: desktop).isEmpty || stage.volume.status().state != .gracePeriod }
          try stage.volume.unlock()
        }
        awaitNotification(of: desktop)
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
