import DataProtection
import Foundation
import Mounting
import Testing

/// A notes app that was written for iOS finds here what it found there.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
struct PortedAppTests {
  private static let files: [(file: String, protectionClass: ProtectionClass)] = [
    ("Notes", .complete), ("Notes/diary.txt", .complete), ("Notes/cat.png", .complete),
    ("Drafts", .completeUnlessOpen), ("Drafts/letter.txt", .completeUnlessOpen),
    ("Settings.json", .completeUntilFirstUserAuthentication),
  ]

  private static func fill(_ app: App) throws {
    #expect(try app.nextNotice() == "opened 0")
    for line in ["save diary dear diary", "picture cat meow", "draft letter dear sir", "setting colour blue"] {
      try #require(app.ask(line) == "done", "\(line)")
    }
  }

  private static func expectContents(_ app: App, _ volume: Volume) throws {
    #expect(app.ask("read diary") == "dear diary")
    #expect(app.ask("read-draft letter") == "dear sir")
    #expect(app.ask("read-setting colour") == "blue")
    #expect(try Data(contentsOf: volume.url("Documents/Notes/cat.png")) == Data("meow".utf8))
  }

  @Test func classes() async throws {
    try await Volume.with { volume in
      let app = try App(volume)
      try Self.fill(app)
      try Self.expectContents(app, volume)
      app.expectClasses(Self.files)
      #expect(app.ask("titles") == "diary")
      // A class is chosen anew when a file is saved, and for all files at once.
      #expect(app.ask("protect-all \(FileProtectionType.completeUnlessOpen.rawValue)") == "done")
      app.expectClasses(Self.files.map { ($0.file, .completeUnlessOpen) })
      #expect(app.ask("save diary dear diary") == "done")
      app.expectClasses([("Notes/diary.txt", .complete)])
      try Self.expectContents(app, volume)
    }
  }

  /// What was not open when the lock came, and what is saved while locked.
  @Test func locked() async throws {
    try await Volume.with { volume in
      let app = try App(volume)
      try Self.fill(app)
      try volume.lock()
      for line in ["read diary", "read-draft letter"] { #expect(app.ask(line) == "locked: cannot be read", "\(line)") }
      for line in ["save diary new", "save another new"] {
        #expect(app.ask(line) == "locked: cannot be saved", "\(line)")
      }
      #expect(app.ask("picture cat woof") == "failed")
      #expect(app.ask("read missing") == "there is none")
      // A draft is class B: a new one can be made.
      #expect(app.ask("draft card hello") == "done")
      #expect(app.ask("read-draft card") == "locked: cannot be read")
      #expect(app.ask("setting colour red") == "done")
      #expect(app.ask("read-setting colour") == "red")
      // Names and classes are told in every state.
      #expect(app.ask("titles") == "diary", "a refused save left something behind")
      app.expectClasses(Self.files + [("Drafts/card.txt", .completeUnlessOpen)])
      // Directories change their class without a key, files do not.
      let protectAll = "protect-all \(FileProtectionType.complete.rawValue)"
      #expect(app.ask(protectAll) == "locked: cannot be saved")

      try volume.unlock()
      #expect(app.ask("read diary") == "dear diary")
      #expect(app.ask("read-draft letter") == "dear sir")
      #expect(app.ask("read-draft card") == "hello")
      #expect(try Data(contentsOf: volume.url("Documents/Notes/cat.png")) == Data("meow".utf8))
      #expect(app.ask(protectAll) == "done")
      app.expectClasses(Self.files.map { ($0.file, .complete) })
    }
  }

  /// As on iOS, a draft that is there can be saved again while locked: it is replaced, and never opened.
  @Test func savedAgainWhileLocked() async throws {
    try await Volume.with { volume in
      let app = try App(volume)
      try Self.fill(app)
      try volume.lock()
      #expect(app.ask("draft letter dear madam") == "done")
      #expect(app.ask("draft card hello") == "done")
      #expect(app.ask("draft card goodbye") == "done")
      try volume.unlock()
      #expect(app.ask("read-draft card") == "goodbye")
      #expect(app.ask("read-draft letter") == "dear madam")
    }
  }

  /// What UIKit would have told it.
  @Test func notifications() async throws {
    try await Volume.with { volume in
      let app = try App(volume)
      try Self.fill(app)
      #expect(app.ask("available") == "true")
      #expect(app.ask("shown") == "")
      for _ in 0..<2 {
        // The lock waits until it has put its notes away.
        try volume.lock(gracePeriod: .milliseconds(300))
        #expect(try app.nextNotice() == "closed")
        #expect(app.ask("available") == "false")
        #expect(app.ask("shown") == "")
        try volume.unlock()
        #expect(try app.nextNotice() == "opened 1")
        #expect(app.ask("available") == "true")
        #expect(app.ask("shown") == "diary")
      }
      // A lock that is cancelled.
      try volume.announceLock(gracePeriod: .seconds(120))
      #expect(try app.nextNotice() == "closed")
      #expect(app.ask("available") == "true")
      try volume.unlock()
      #expect(try app.nextNotice() == "opened 1")
      #expect(app.ask("read diary") == "dear diary")
    }
  }

  /// The daemon is killed, and the store mounted anew: what was saved is there, in its class.
  @Test func daemonStartedAnew() async throws {
    try await Volume.with { volume in
      let app = try App(volume)
      try Self.fill(app)
      try volume.crash()
      #expect(app.ask("available") == "false")
      #expect(app.ask("read diary") == "there is none", "the mount point is empty")
      try volume.mount()
      #expect(app.ask("available") == "false")
      app.expectClasses(Self.files)
      // Before the first unlock the settings are locked too.
      for line in ["read diary", "read-draft letter", "read-setting colour"] {
        #expect(app.ask(line) == "locked: cannot be read", "\(line)")
      }
      #expect(app.ask("setting colour red") == "locked: cannot be saved")
      try volume.unlock()
      #expect(try app.nextNotice() == "opened 1")
      try Self.expectContents(app, volume)
      app.expectClasses(Self.files)
    }
  }
}
