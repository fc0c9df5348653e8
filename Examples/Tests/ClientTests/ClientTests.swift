import DataProtection
import Foundation
import Mounting
import Testing

/// The clients of Examples/Clients, which speak Varlink and need nothing of this package.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
struct ClientTests {
  private static let python = "/usr/bin/python3"

  private static func client(_ name: String, _ volume: Volume) throws -> Program {
    let clients = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appendingPathComponent("Clients")
    return try Program(python, [clients.appendingPathComponent(name).path, volume.socket])
  }

  /// Whether Python has a module; says why a test is skipped.
  private static func hasModule(_ name: String) -> Bool {
    guard let program = try? Program(python, ["-c", "import \(name)"], errors: .nullDevice),
      program.wait() == .exited(0)
    else {
      print("a test of Examples/Clients is skipped: \(python) has no module \(name)")
      return false
    }
    return true
  }

  @Test(.enabled(if: hasModule("asyncio"))) func asyncio() async throws {
    try await Volume.with { volume in
      let client = try Self.client("follow-asyncio.py", volume)
      #expect(client.answer() == "monitoringBegan unlocked")
      try volume.lock()
      #expect(client.answer() == "willBecomeUnavailable  complete completeUnlessOpen")
      #expect(client.answer() == "didBecomeUnavailable  complete completeUnlessOpen")
      try volume.unlock()
      #expect(client.answer().hasPrefix("didBecomeAvailable  complete "))
      try volume.crash()
      #expect(client.answer() == "exit 1")
    }
  }

  @Test(.enabled(if: hasModule("gi"))) func glib() async throws {
    try await Volume.with { volume in
      let client = try Self.client("follow-glib.py", volume)
      #expect(client.answer() == "monitoringBegan")
      for _ in 0..<2 {
        try volume.announceLock(gracePeriod: .milliseconds(300))
        #expect(Set([client.answer(), client.answer()]) == ["willBecomeUnavailable", "put away"])
        #expect(client.answer() == "didBecomeUnavailable")
        try volume.unlock()
        #expect(client.answer() == "didBecomeAvailable")
      }
      try volume.crash()
      #expect(client.answer() == "exit 1")
    }
  }
}
