import DataProtection
import Foundation
import Mounting
import Testing

/// A web service whose database is closed at a lock.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
struct NotesServerTests {
  @Test func lockedAndUnlocked() async throws {
    try await Volume.with { volume in
      let server = try Server(volume.url("Notes/notes.sqlite"))
      #expect(try server.waits(for: 200, "GET", "/notes").body == "")
      #expect(try server.request("POST", "/notes", "first").status == 201)
      for count in 1...2 {
        // It has closed its database when this returns, so no file was lost under it.
        try volume.lock(gracePeriod: .milliseconds(300))
        let refused = try server.request("GET", "/notes")
        #expect(refused.status == 503 && refused.head.contains("Retry-After: 30"))
        #expect(try server.request("POST", "/notes", "lost").status == 503)
        try volume.unlock()
        let notes = ["first", "second", "second"].prefix(count).joined(separator: "\n")
        #expect(try server.waits(for: 200, "GET", "/notes").body == notes)
        #expect(try server.request("POST", "/notes", "second").status == 201)
      }
      // Without a grace period too.
      try volume.lock()
      #expect(try server.waits(for: 503, "GET", "/notes").body == "")
      server.terminate()
      #expect(server.ending == .exited(0))
    }
  }

  /// It is there before its files are.
  @Test func startedWhileLocked() async throws {
    try await Volume.with { volume in
      try volume.lock()
      let server = try Server(volume.url("Notes/notes.sqlite"))
      #expect(try server.request("GET", "/notes").status == 503)
      try volume.unlock()
      #expect(try server.waits(for: 200, "GET", "/notes").body == "")
      try volume.crash()
      #expect(try server.waits(for: 503, "GET", "/notes").body == "")
      try volume.mount()
      try volume.unlock()
      #expect(try server.waits(for: 200, "GET", "/notes").body == "")
    }
  }
}
