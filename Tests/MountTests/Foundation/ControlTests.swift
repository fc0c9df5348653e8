import DataProtection
import Foundation
import Synchronization
import Testing

extension MountTests {
  /// What tasks ask a daemon for.
  @Suite struct ControlTests {
    /// Waits for a task in a test that is none.
    private func outcome<Value: Sendable>(
      _ body: @escaping @Sendable () async throws(ControlError) -> Value
    ) -> Result<Value, ControlError> {
      let end = DispatchSemaphore(value: 0)
      let found = Found<Value>()
      Task {
        let result = await Found<Value>.result(of: body)
        found.value.withLock { $0 = result }
        end.signal()
      }
      end.wait()
      return found.value.withLock { $0! }
    }

    private final class Found<Value: Sendable>: Sendable {
      let value = Mutex<Result<Value, ControlError>?>(nil)

      static func result(
        of body: @Sendable () async throws(ControlError) -> Value
      ) async -> Result<Value, ControlError> {
        do throws(ControlError) { return .success(try await body()) } catch { return .failure(error) }
      }
    }

    private func code<Value: Sendable>(
      _ body: @escaping @Sendable () async throws(ControlError) -> Value
    ) -> ControlError.Code? {
      if case .failure(let error) = outcome(body) { error.code } else { nil }
    }

    private func unlock(_ volume: Volume, passcode: String) -> ControlError.Code? {
      let (url, bytes) = (volume.url(""), Array(passcode.utf8))
      return code { () throws(ControlError) in try await ProtectedData.unlock(at: url, passcode: bytes.span) }
    }

    private func unlock(_ volume: Volume, recoveryKey: String) -> ControlError.Code? {
      let (url, bytes) = (volume.url(""), Array(recoveryKey.utf8))
      return code { () throws(ControlError) in try await ProtectedData.unlock(at: url, recoveryKey: bytes.span) }
    }

    private func lock(_ url: URL) -> ControlError.Code? {
      code { () throws(ControlError) in try await ProtectedData.lock(at: url, gracePeriod: .zero) }
    }

    @Test func lockAndUnlock() throws {
      try Volume.with { volume in
        let url = volume.url("")
        #expect(lock(url) == nil)
        let status = try outcome { () throws(ControlError) in try await ProtectedData.status(at: url) }.get()
        #expect(status.state == .locked)
        #expect(unlock(volume, passcode: volume.recoveryKey) == .wrongPasscode)
        #expect(unlock(volume, passcode: "") == .invalidRequest)
        #expect(unlock(volume, passcode: Volume.passcode) == nil)
        #expect(try volume.status().state == .unlocked)
        #expect(lock(url) == nil)
        #expect(unlock(volume, recoveryKey: volume.recoveryKey) == nil)
        #expect(try volume.status().state == .unlocked)
        #expect(lock(URL(fileURLWithPath: "/")) == .notMounted)
      }
    }

    /// The error of a call whose task is cancelled while it waits, once something has begun.
    private func cancelled(
      once hasBegun: @escaping @Sendable () async -> Bool = { true },
      _ body: @escaping @Sendable () async throws(ControlError) -> Void
    ) -> ControlError.Code? {
      code { () throws(ControlError) in
        let task = Task { () -> Result<Void, ControlError> in await Found<Void>.result(of: body) }
        repeat { try? await Task.sleep(for: .milliseconds(200)) } while !(await hasBegun())
        task.cancel()
        try await task.value.get()
      }
    }

    /// A task need not wait for a daemon that was stopped, nor for a grace period: the daemon stays stopped, and
    /// the lock announced, until the task has ended.
    @Test func cancelledWhileItWaits() throws {
      try Volume.with { volume in
        let url = volume.url("")
        let isGracePeriod = { @Sendable in (try? await ProtectedData.status(at: url).state) == .gracePeriod }
        let waiting = cancelled(once: isGracePeriod) { () throws(ControlError) in
          try await ProtectedData.lock(at: url, gracePeriod: .seconds(60))
        }
        #expect(waiting == .cancelled)
        let state = try volume.status().state
        #expect(state == .gracePeriod)
        kill(volume.processID, SIGSTOP)
        defer { kill(volume.processID, SIGCONT) }
        let stopped = cancelled { () throws(ControlError) in _ = try await ProtectedData.status(at: url) }
        #expect(stopped == .cancelled)
      }
    }
  }
}
