import CSystemCalls
import DataProtection
import Foundation
import ProtectfsIO
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// Whether protected data is available, and the events when that changes.
  @Suite struct AvailabilityTests {
    /// The events that a listener got, in order.
    private final class Listener: Sendable {
      private let told = Mutex<[String]>([])
      private let holds = Mutex<[LockHold]>([])
      private let task = Mutex<Task<Void, Never>?>(nil)

      /// - Parameter keepsHolds: holds are kept until ``release()``.
      init(_ events: ProtectedDataEvents, keepsHolds: Bool = false) {
        task.withLock {
          $0 = Task { [self] in
            for await event in events {
              switch event {
              case .didBecomeAvailable: append("available")
              case .didBecomeUnavailable: append("unavailable")
              case .willBecomeUnavailable(let hold):
                if keepsHolds { holds.withLock { $0.append(hold) } }
                append("will \(hold.timeLimit)")
              }
            }
            append("end")
          }
        }
      }

      private func append(_ event: String) { told.withLock { $0.append(event) } }

      func release() { holds.withLock { $0 = [] } }

      func cancel() { task.withLock { $0?.cancel() } }

      /// Waits for exactly these events.
      func expect(_ events: String...) throws {
        eventually { told.withLock { $0.count >= events.count } }
        #expect(told.withLock { $0 } == events)
        told.withLock { $0 = [] }
      }
    }

    /// A flag for something that has happened.
    private final class Flag: Sendable {
      private let value = Atomic(false)

      func raise() { value.store(true, ordering: .releasing) }

      var isRaised: Bool { value.load(ordering: .acquiring) }
    }

    /// A daemon that was stopped does not keep a program that asks.
    @Test func aStoppedDaemonIsNotWaitedFor() throws {
      try Volume.with { volume in
        // Made before: a URL that is not told so looks whether it is one of a directory.
        let url = URL(fileURLWithPath: volume.path("directory/file").description, isDirectory: false)
        let unknown = URL(fileURLWithPath: volume.path("nothing").description, isDirectory: false)
        try volume.path("directory").makeDirectory()
        try volume.path("directory/file").write("contents")
        #expect(ProtectedData.isAvailable(at: url))
        #expect(calls_kill(volume.processID, SIGSTOP) == 0)
        #expect(eventually { !ProtectfsIO.Process.isRunning(volume.processID) })
        defer { #expect(calls_kill(volume.processID, SIGCONT) == 0) }
        let flag = Flag()
        ProtectfsIO.Thread(name: "asks") {
          for path in [url, unknown] {
            #expect(!ProtectedData.isAvailable(at: path))
            #expect(throws: (any Error).self) { try ProtectedData.state(at: path) }
          }
          flag.raise()
        }.detach()
        #expect(eventually { flag.isRaised })
      }
    }

    @Test func isToldOfTheMount() throws {
      try Volume.with(unlocked: false) { volume in
        try volume.path("directory").makeDirectory()
        let url = volume.url("directory")
        func expect(_ state: LockState, _ classes: Set<ProtectionClass>) throws {
          #expect(try ProtectedData.state(at: url) == state)
          #expect(ProtectedData.isAvailable(at: url) == classes.contains(.complete))
          for protectionClass in ProtectionClass.allCases {
            #expect(ProtectedData.isAvailable(protectionClass, at: url) == classes.contains(protectionClass))
          }
        }
        try expect(.beforeFirstUnlock, [.none])
        try volume.unlock()
        try expect(.unlocked, Set(ProtectionClass.allCases))
        try volume.lock()
        try expect(.locked, [.none, .completeUntilFirstUserAuthentication, .completeWhenUserInactive])
        try volume.unmount()
        #expect(!ProtectedData.isAvailable(at: URL(fileURLWithPath: volume.mountPoint.description)))
        #expect(
          cocoaCode { _ = try ProtectedData.state(at: URL(fileURLWithPath: volume.mountPoint.description)) }
            == .featureUnsupported)
      }
    }

    @Test func changesAreToldAcrossDaemons() throws {
      try Volume.with { volume in
        let url = URL(fileURLWithPath: volume.mountPoint.description)
        let listener = Listener(ProtectedData.events(at: url))
        let ofClassC = Listener(ProtectedData.events(at: url, of: .completeUntilFirstUserAuthentication))
        defer { for listener in [listener, ofClassC] { listener.cancel() } }
        try listener.expect("available")
        try ofClassC.expect("available")
        try volume.lock()
        try listener.expect("will 0.0 seconds", "unavailable")
        try volume.unlock()
        try listener.expect("available")
        // Cancelled.
        try volume.announceLock(gracePeriod: .seconds(60))
        try listener.expect("will 60.0 seconds")
        try volume.unlock()
        try listener.expect("available")
        volume.kill()
        try listener.expect("unavailable")
        try ofClassC.expect("unavailable")
        try volume.mountPoint.unmount(isLazy: true)
        try volume.mount()
        try volume.unlock()
        try listener.expect("available")
        try ofClassC.expect("available")
        try volume.unmount()
        try listener.expect("unavailable")
        listener.cancel()
        try listener.expect("end")
      }
    }

    /// What was open on the former mount is lost, also when the data of the other is available.
    @Test func anotherMountTakesThePlace() throws {
      try Volume.with { volume in
        let listener = Listener(ProtectedData.events(at: URL(fileURLWithPath: volume.mountPoint.description)))
        defer { listener.cancel() }
        try listener.expect("available")
        try Volume.with { other in
          let bind = ["mount", "--bind", other.mountPoint.description, volume.mountPoint.description]
          try #require(try Program.run(bind).succeeded)
          try listener.expect("unavailable", "available")
          try volume.mountPoint.unmount(isLazy: false)
          try listener.expect("unavailable", "available")
          try other.lock()
          try #require(try Program.run(bind).succeeded)
          try listener.expect("unavailable")
          // Both daemons answer, and one by the path.
          #expect(try volume.status().backing == other.backing.description)
          try other.unlock()
          try listener.expect("available")
          try volume.mountPoint.unmount(isLazy: false)
          try listener.expect("unavailable", "available")
        }
      }
    }

    @Test func holdsDelayTheLock() throws {
      try Volume.with(["-o", "allow_other,lock_delay=30"]) { volume in
        let url = URL(fileURLWithPath: volume.mountPoint.description)
        let listener = Listener(ProtectedData.events(at: url, delayingLocks: true), keepsHolds: true)
        defer { listener.cancel() }
        try listener.expect("available")
        for _ in 0..<3 {
          try volume.announceLock(gracePeriod: .milliseconds(10))
          try listener.expect("will 30.0 seconds")
          usleep(200_000)
          #expect(ProtectedData.isAvailable(at: url), "the lock did not wait")
          listener.release()
          try listener.expect("unavailable")
          try volume.unlock()
          try listener.expect("available")
        }
        // Without a grace period the lock is not delayed.
        try volume.lock()
        try listener.expect("will 0.0 seconds", "unavailable")
      }
    }

    /// A class that a lock does not take causes no delay.
    @Test func otherClassesDelayNoLock() throws {
      try Volume.with(["-o", "allow_other,lock_delay=30"]) { volume in
        let url = URL(fileURLWithPath: volume.mountPoint.description)
        let listener = Listener(
          ProtectedData.events(at: url, of: .completeWhenUserInactive, delayingLocks: true), keepsHolds: true)
        defer { listener.cancel() }
        try listener.expect("available")
        try volume.announceLock(gracePeriod: .milliseconds(10))
        try volume.wait(for: .locked)
        try listener.expect()
      }
    }

    @Test func isWaitedFor() throws {
      let finished = Flag()
      try Volume.with(unlocked: false) { volume in
        let url = URL(fileURLWithPath: volume.mountPoint.description)
        let waiting = Task {
          try await ProtectedData.waitUntilAvailable(at: url)
          finished.raise()
        }
        let cancelled = Task { try await ProtectedData.waitUntilAvailable(at: url) }
        cancelled.cancel()
        usleep(200_000)
        #expect(!finished.isRaised)
        try volume.unlock()
        #expect(eventually { finished.isRaised })
        waiting.cancel()
      }
    }
  }
}
