import DataProtection
import Foundation
import ProtectfsIO
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// Many listeners of one mount.
  @Suite struct ListenerTests {
    /// The threads of this process that follow mounts, and its descriptors.
    private static func cost() throws -> (threads: Int, descriptors: Int) {
      let files = FileManager.default
      let threads = try files.contentsOfDirectory(atPath: "/proc/self/task").filter {
        (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8))?.hasPrefix("protected-data")
          ?? false
      }
      return (threads.count, try files.contentsOfDirectory(atPath: "/proc/self/fd").count)
    }

    /// The same before anybody listens: the threads of earlier listeners have ended, which takes a moment.
    private static func costAtRest() throws -> (threads: Int, descriptors: Int) {
      #expect(try eventually { try cost().threads == 0 })
      return try cost()
    }

    /// `eventually` in a task, of which few run at a time.
    private static func sleep(until condition: () -> Bool) async -> Bool {
      let deadline = ContinuousClock.now + patience
      while !condition() {
        if ContinuousClock.now > deadline { return false }
        try? await Task.sleep(for: .milliseconds(5))
      }
      return true
    }

    /// What listeners heard, counted.
    private final class Heard: Sendable {
      private let counts = Mutex<[String: Int]>([:])

      subscript(name: String) -> Int { counts.withLock { $0[name] ?? 0 } }

      /// Listens until the task is cancelled.
      func listen(_ url: URL) -> Task<Void, Never> {
        Task { [self] in
          for await event in ProtectedData.events(at: url, delayingLocks: true) {
            switch event {
            case .didBecomeAvailable: count("available")
            case .willBecomeUnavailable: count("will")
            case .didBecomeUnavailable: count("unavailable")
            }
          }
        }
      }

      private func count(_ name: String) { counts.withLock { $0[name, default: 0] += 1 } }
    }

    /// However many listen, one connection and one delay are enough, and each listener hears of everything.
    @Test func costAsMuchAsOne() throws {
      try Volume.with(["-o", "allow_other,lock_delay=30"]) { volume in
        let url = URL(fileURLWithPath: volume.mountPoint.description)
        let before = try Self.costAtRest()
        let heard = Heard()
        let tasks = (0..<200).map { _ in heard.listen(url) }
        defer { for task in tasks { task.cancel() } }
        #expect(eventually { heard["available"] == 200 })
        let after = try Self.cost()
        #expect(after.threads - before.threads <= 2)
        #expect(after.descriptors - before.descriptors <= 8)
        try volume.announceLock(gracePeriod: .milliseconds(200))
        #expect(eventually { heard["will"] == 200 && heard["unavailable"] == 200 })
        try volume.unlock()
        #expect(eventually { heard["available"] == 400 })
        for task in tasks { task.cancel() }
        #expect(try eventually { try Self.cost().threads == before.threads })
        #expect(try eventually { try Self.cost().descriptors <= before.descriptors })
      }
    }

    /// One that never asks for its events, or does not release its hold, keeps nobody from hearing of them; once it is
    /// gone, the lock does not wait for it either.
    @Test func aSlowOneCostsNobody() throws {
      try Self.withVolume(["-o", "allow_other,lock_delay=30"]) { volume in
        let url = URL(fileURLWithPath: volume.mountPoint.description)
        let heard = Heard()
        let task = heard.listen(url)
        defer { task.cancel() }
        #expect(await Self.sleep { heard["available"] == 1 })
        var slow: ProtectedDataEvents.Iterator? = ProtectedData.events(at: url, delayingLocks: true).makeAsyncIterator()
        guard case .didBecomeAvailable? = await slow?.next() else { throw CancellationError() }
        try volume.announceLock(gracePeriod: .milliseconds(100))
        #expect(await Self.sleep { heard["will"] == 1 })
        try await Task.sleep(for: .milliseconds(400))
        #expect(ProtectedData.isAvailable(at: url), "the lock waits for the one that has not answered")
        slow = nil
        #expect(await Self.sleep { heard["unavailable"] == 1 })
      }
    }

    /// A hold outlives the listener that got it.
    @Test func cancelledWithAHold() throws {
      try Self.withVolume(["-o", "allow_other,lock_delay=30"]) { volume in
        let url = URL(fileURLWithPath: volume.mountPoint.description)
        let task = Task { () -> LockHold? in
          for await event in ProtectedData.events(at: url, delayingLocks: true) {
            switch event {
            case .didBecomeAvailable: try? volume.announceLock(gracePeriod: .milliseconds(100))
            case .willBecomeUnavailable(let hold): return hold
            case .didBecomeUnavailable: break
            }
          }
          return nil
        }
        let hold = try #require(await task.value)
        try await Task.sleep(for: .milliseconds(500))
        #expect(ProtectedData.isAvailable(at: url))
        hold.release()
        #expect(await Self.sleep { !ProtectedData.isAvailable(at: url) })
      }
    }

    /// A lock that comes while a listener starts is never missed: its first event is the state before it, or after it.
    @Test func noLockIsMissedAtTheStart() throws {
      try Self.withVolume([]) { volume in
        let url = URL(fileURLWithPath: volume.mountPoint.description)
        for _ in 0..<20 {
          let listening = Task { () -> Bool in
            for await event in ProtectedData.events(at: url) {
              if case .didBecomeUnavailable = event { return true }
            }
            return false
          }
          try volume.lock()
          let limit = Task {
            try await Task.sleep(for: patience)
            listening.cancel()
          }
          #expect(await listening.value, "the lock was missed")
          limit.cancel()
          try volume.unlock()
        }
      }
    }

    /// Its mounts share what follows a file system.
    @Test func aBindMount() throws {
      try Volume.with { volume in
        try volume.path("directory").makeDirectory()
        let bound = volume.directory.appending("bound")
        try bound.makeDirectory()
        let source = volume.path("directory").description
        try #require(try Program.run(["mount", "--bind", source, bound.description]).succeeded)
        defer { try? bound.unmount(isLazy: true) }
        let before = try Self.costAtRest()
        let heard = Heard()
        let tasks = [volume.mountPoint, bound].map { heard.listen(URL(fileURLWithPath: $0.description)) }
        defer { for task in tasks { task.cancel() } }
        #expect(eventually { heard["available"] == 2 })
        #expect(try Self.cost().threads - before.threads <= 2)
        try volume.lock()
        #expect(eventually { heard["will"] == 2 && heard["unavailable"] == 2 })
        try volume.unlock()
        #expect(eventually { heard["available"] == 4 })
        // What is left of the file system is locked.
        try volume.mountPoint.unmount(isLazy: true)
        #expect(eventually { heard["unavailable"] == 4 })
      }
    }

    /// A mount whose path changes is followed.
    @Test func aRenamedDirectory() throws {
      try Volume.with { volume in
        let heard = Heard()
        let task = heard.listen(URL(fileURLWithPath: volume.mountPoint.description))
        defer { task.cancel() }
        #expect(eventually { heard["available"] == 1 })
        var connection = try volume.connection()
        let (path, other) = (volume.directory.description, volume.directory.description + ".moved")
        try FileManager.default.moveItem(atPath: path, toPath: other)
        defer { try? FileManager.default.moveItem(atPath: other, toPath: path) }
        try connection.lock(gracePeriod: .zero)
        #expect(eventually { heard["unavailable"] == 1 })
        try FileManager.default.moveItem(atPath: other, toPath: path)
        try volume.unlock()
        #expect(eventually { heard["available"] == 2 })
      }
    }

    /// Listeners that come and go while the state changes leave nothing behind, and keep nothing from one that stays.
    @Test func comingAndGoing() throws {
      let before = try Self.costAtRest()
      try Self.withVolume(["-o", "allow_other,lock_delay=30"]) { volume in
        let url = URL(fileURLWithPath: volume.mountPoint.description)
        let heard = Heard()
        let steady = heard.listen(url)
        _ = await Self.sleep { heard["available"] == 1 }
        let passing = Task {
          await withTaskGroup { group in
            for _ in 0..<4 {
              group.addTask {
                while !Task.isCancelled {
                  var events = ProtectedData.events(at: url, delayingLocks: true).makeAsyncIterator()
                  _ = await events.next()
                  await Task.yield()
                }
              }
            }
          }
        }
        for count in 1...20 {
          try volume.announceLock(gracePeriod: .milliseconds(5))
          #expect(await Self.sleep { heard["unavailable"] == count }, "lock \(count)")
          try volume.unlock()
          #expect(await Self.sleep { heard["available"] == count + 1 }, "unlock \(count)")
        }
        #expect(heard["will"] == 20)
        passing.cancel()
        await passing.value
        steady.cancel()
        #expect(await Self.sleep { (try? Self.cost().threads) == before.threads })
      }
    }

    /// `Volume.with` for tests that wait as tasks do.
    private static func withVolume(
      _ options: [String], _ body: @escaping @Sendable (Volume) async throws -> Void
    ) throws {
      try Volume.with(options) { volume in
        let end = DispatchSemaphore(value: 0)
        let outcome = Outcome()
        Task {
          do { try await body(volume) } catch { outcome.error.withLock { $0 = error } }
          end.signal()
        }
        end.wait()
        if let error = outcome.error.withLock({ $0 }) { throw error }
      }
    }

    private final class Outcome: Sendable {
      let error = Mutex<(any Error)?>(nil)
    }
  }
}
