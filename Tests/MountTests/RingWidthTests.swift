import Glibc
import ProtectfsIO
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// Of each queue of the rings, as a rule one buffer waits for requests.
  @Suite(.serialized, Setting.isPossible) struct RingWidthTests {
    private static let options = ["-o", "allow_other,transport=io_uring"]

    /// Makes as many directories, each in another one, from one processor, while the store hangs.
    private func hang(_ count: Int, on volume: Volume, _ faults: Faults) throws -> [PendingCall] {
      let names = (0..<count).map { volume.path("directory \($0)") }
      for name in names {
        if !name.exists { try name.makeDirectory() }
        _ = try name.status()
      }
      faults.settle()
      faults.arm(.hang, at: 1, of: [.changes])
      return names.map { name in
        PendingCall { () throws(Errno) in
          CommandRing.bindThread(to: 0)
          try name.appending("new").makeDirectory()
        }
      }
    }

    /// How long requests take that do not hang, and that one after another client makes on the same processor.
    private func others(_ count: Int, on volume: Volume) throws -> [Duration] {
      let times = Monitor(.test, [Duration]())
      for number in 0..<count {
        let error = try PendingCall { () throws(Errno) in
          CommandRing.bindThread(to: 0)
          let start = ContinuousClock.now
          _ = volume.path("nothing \(number)").exists
          times.update { $0.append(ContinuousClock.now - start) }
        }.result()
        #expect(error == nil)
      }
      return times.read { $0.sorted() }
    }

    /// What comes behind a request that hangs has another thread soon: also if the kernel knows no file by which the
    /// daemon could have it make a request.
    @Test(arguments: [false, true]) func nobodyWaitsBehindOneThatHangs(_ hasFile: Bool) throws {
      try Setting.offer.with("Y") {
        try Volume.withFaults(Self.options) { volume, faults in
          if hasFile { try volume.path("file").write("contents") }
          defer { faults.disarm() }
          for round in 0..<10 {
            let calls = try hang(1 + round % 3, on: volume, faults)
            let times = try others(8, on: volume)
            #expect(times[4] < .milliseconds(50) && times[7] < .milliseconds(100), "\(times)")
            faults.disarm()
            for call in calls { #expect(try call.result() == nil) }
            for index in calls.indices { try volume.path("directory \(index)").appending("new").removeDirectory() }
          }
        }
      }
    }

    /// A group of processes for which processors can be chosen.
    private static let group: PathName? = [("/sys/fs/cgroup/cpuset", "cpuset.cpus"), ("/sys/fs/cgroup", "")]
      .filter { root, file in
        let controllers = try? PathName("\(root)/cgroup.subtree_control").text()
        return file.isEmpty ? controllers?.contains("cpuset") ?? false : PathName("\(root)/\(file)").exists
      }
      .first.map { PathName("\($0.0)/protectfs-tests.\(getpid())") }

    /// Nobody can make a request on a processor where the daemon may not run.
    @Test(.enabled(if: group != nil && Process.processorCount > 1, "processors cannot be chosen"))
    func nobodyWaitsWhereTheDaemonMayNotRun() throws {
      let group = try #require(Self.group)
      try group.makeDirectory()
      // It is in use until its last process has ended.
      defer { while failure(of: group.removeDirectory) == .resourceBusy { usleep(10_000) } }
      try Setting.offer.with("Y") {
        try Volume.store(environment: { Faults.environment($0.appending("faults")) }) { volume in
          let faults = try Faults(of: volume)
          let script = "echo 0 > $0/cpuset.mems; echo 1 > $0/cpuset.cpus; echo $$ > $0/cgroup.procs; exec \"$@\""
          try volume.mount(Self.options, through: ["sh", "-c", script, group.description])
          try volume.unlock()
          defer { faults.disarm() }
          for round in 0..<10 {
            let calls = try hang(1 + round % 3, on: volume, faults)
            let times = try others(8, on: volume)
            #expect(times[7] < .milliseconds(500), "\(times)")
            faults.disarm()
            for call in calls { #expect(try call.result() == nil) }
            for index in calls.indices { try volume.path("directory \(index)").appending("new").removeDirectory() }
          }
          try volume.unmount()
        }
      }
    }

    /// Buffers that were left to the keeper, since there were too few threads, are not the only ones that wait later.
    @Test func theKeeperDoesNotStandInForThreadsThatRest() throws {
      try Setting.offer.with("Y") {
        try Volume.withFaults(["-o", "allow_other,transport=io_uring,threads=1"]) { volume, faults in
          try volume.path("file").write("contents")
          defer { faults.disarm() }
          let calls = try hang(30, on: volume, faults)
          while faults.hanging < 16 { usleep(1000) }
          usleep(500_000)
          faults.disarm()
          for call in calls { #expect(try call.result() == nil) }
          let longest = Monitor(.test, Duration.zero)
          for round in 0..<4 {
            let clients = (0..<2).map { client in
              PendingCall { () throws(Errno) in
                CommandRing.bindThread(to: 0)
                let end = ContinuousClock.now + .seconds(1)
                var number = 0
                while ContinuousClock.now < end {
                  let start = ContinuousClock.now
                  _ = volume.path("none \(round) \(client) \(number)").exists
                  let time = ContinuousClock.now - start
                  longest.update { $0 = max($0, time) }
                  number += 1
                  if number.isMultiple(of: 50) { usleep(3000) }
                }
              }
            }
            for client in clients { #expect(try client.result() == nil) }
          }
          let time = longest.read { $0 }
          #expect(time < .milliseconds(200))
        }
      }
    }

    /// A thread that rests holds a request, which the kernel counts as waiting. It does so for a second at most.
    @Test func nothingIsHeldWhenNothingHappens() throws {
      try Setting.offer.with("Y") {
        try Volume.with(Self.options) { volume in
          let control = volume.directory.appending("connections")
          try control.makeDirectory()
          let mounted = try Program.run(["mount", "-t", "fusectl", "none", control.description])
          try #require(mounted.succeeded, "\(mounted.output)")
          defer { try? control.unmount(isLazy: true) }
          let device = try Program.run(["mountpoint", "-d", volume.mountPoint.description]).output
          let minor = try #require(device.split { !$0.isNumber }.last)
          let path = control.appending(String(minor)).appending("waiting")
          // It cannot be read by pread(2).
          func waiting() throws -> Int? { try Int(Program.run(["cat", path.description]).output.filter(\.isNumber)) }
          for round in 0..<5 {
            let calls = (0..<16).map { client in
              PendingCall { () throws(Errno) in
                for number in 0..<50 {
                  let name = volume.path("file \(round) \(client) \(number)")
                  let file = try OpenFile(name, O_RDWR | O_CREAT)
                  try file.write([1, 2, 3], at: 0)
                  try file.synchronize()
                  try name.unlink()
                }
              }
            }
            for call in calls { #expect(try call.result(seconds: 60) == nil) }
            let end = ContinuousClock.now + .seconds(3)
            while try waiting() != 0, .now < end { usleep(10_000) }
            #expect(try waiting() == 0)
            usleep(100_000)
            #expect(try waiting() == 0)
          }
          // Nothing that is held keeps the mount from being unmounted.
          for number in 0..<200 { _ = volume.path("none \(number)").exists }
          try volume.unmount()
        }
      }
    }
  }
}
