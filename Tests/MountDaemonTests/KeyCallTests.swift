import Cryptography
import Glibc
import Logging
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Testing

@testable import MountDaemon

/// Calls that change keys: what the client sends arrives at the daemon.
@Suite struct KeyCallTests {
  private func with<Result>(_ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
    try unsafe bytes.withUnsafeBytes(body)
  }

  /// When a lock is answered, no secret is in memory that was being tried when it came.
  @Test func aLockWaitsForASecretThatIsBeingTried() {
    let derivation = DerivationLock(limit: 2)
    derivation.waitForTrial(atMost: .seconds(600))
    let (begun, goOn, waited) = (Semaphore(), Semaphore(), Semaphore())
    let trying = Thread(name: "try") {
      try? derivation.attempt {
        begun.post()
        _ = goOn.wait(microseconds: 60_000_000)
      }
    }
    _ = begun.wait(microseconds: 60_000_000)
    derivation.waitForTrial(atMost: .milliseconds(20))
    Thread(name: "lock") {
      derivation.waitForTrial(atMost: .seconds(600))
      waited.post()
    }.detach()
    #expect(!waited.wait(microseconds: 50_000))
    goOn.post()
    #expect(waited.wait(microseconds: 60_000_000))
    trying.join()
  }

  @Test func eachKindIsAdded() throws {
    try FakeDaemon.withServer { daemon, server in
      try unsafe with(Array("secret".utf8)) { passcode in
        try unsafe with(Array("ein \"neuer\" Schlüssel".utf8)) { new in
          try unsafe with([UInt8](repeating: 0, count: 1024)) { keyFile in
            var connection = try DaemonConnection(socketPath: server.socketPath)
            try unsafe connection.addKey(.passcode(new), label: "a \"label\"", with: .passcode(passcode))
            try unsafe connection.addKey(.tpmPasscode(new), label: "", with: .passcode(passcode))
            try unsafe connection.addKey(.recoveryKey(new), label: "r", with: .passcode(passcode))
            try unsafe connection.addKey(.keyFile(keyFile), label: "k", with: .passcode(passcode))
          }
        }
      }
      #expect(
        daemon.state.withLock { $0.changes } == [
          #"add passcode ein "neuer" Schlüssel as a "label""#, #"add TPM passcode ein "neuer" Schlüssel as "#,
          #"add recovery key ein "neuer" Schlüssel as r"#, "add key file of 1024 bytes as k",
        ])
    }
  }

  @Test func aKeyFileOpens() throws {
    try FakeDaemon.withServer { daemon, server in
      var connection = try DaemonConnection(socketPath: server.socketPath)
      try unsafe with([UInt8](repeating: 0xA5, count: 32)) { try unsafe connection.unlock(.keyFile($0)) }
      #expect(daemon.status().state == .unlocked)
      let error = #expect(throws: ControlError.self) {
        try unsafe with([UInt8](repeating: 0xA4, count: 32)) { try unsafe connection.unlock(.keyFile($0)) }
      }
      #expect(error?.code == .wrongPasscode)
      #expect(throws: ControlError.self) { try unsafe with([]) { try unsafe connection.unlock(.keyFile($0)) } }
    }
  }

  /// Root alone may say that a login program has accepted a passcode.
  @Test func loginsAreOfRoot() throws {
    try FakeDaemon.withServer { daemon, server in
      for (method, new) in [("Unlock", ""), ("ChangePasscode", #","newPasscode":"secret""#)] {
        let socket = try LocalSocket()
        try socket.connect(to: server.socketPath)
        let call =
          #"{"method":"org.protectfs.Daemon.\#(method)","parameters":{"login":true,"passcode":"secret"\#(new)}}"#
        try socket.send(Array(call.utf8) + [0])
        let reply = receive(socket, untilNUL: true).text
        #expect(geteuid() == 0 ? !reply.contains("error") : reply.contains(#""parameter":"login""#))
      }
      #expect(daemon.state.withLock { $0.changes } == (geteuid() == 0 ? ["login", "login"] : []))
      // Nor does anything else stand for it.
      var connection = try DaemonConnection(socketPath: server.socketPath)
      try unsafe with(Array("secret".utf8)) { try unsafe connection.unlock(.passcode($0)) }
      #expect(daemon.state.withLock { $0.changes.count } == (geteuid() == 0 ? 2 : 0))
    }
  }

  @Test func removalRotationErasure() throws {
    try FakeDaemon.withServer { daemon, server in
      try unsafe with(Array("secret".utf8)) { passcode in
        var connection = try DaemonConnection(socketPath: server.socketPath)
        try unsafe connection.removeKey(String(repeating: "0f", count: 16), with: .passcode(passcode))
        #expect(throws: ControlError.self) {
          try unsafe connection.removeKey("no digits", with: .passcode(passcode))
        }
        try unsafe connection.erase(.completeWhenUserInactive, with: .passcode(passcode))
        try connection.eraseStore()
        var reports: [RotationStatus] = []
        let other = try DaemonConnection(socketPath: server.socketPath)
        try unsafe other.rotate(.none, with: .passcode(passcode)) { status in
          reports.append(status)
          return true
        }
        #expect(reports.last == RotationStatus(files: 3, rewrapped: 3, damaged: 0, isFinished: true))
      }
      #expect(
        daemon.state.withLock { $0.changes } == [
          "remove " + String(repeating: "0f", count: 16), "erase completeWhenUserInactive", "erase all", "rotate none",
        ])
    }
  }

  @Test func hostsAreSetAndLocked() throws {
    try FakeDaemon.withServer { daemon, server in
      let id = String(repeating: "0f", count: 16)
      var connection = try DaemonConnection(socketPath: server.socketPath)
      try unsafe with(Array("secret".utf8)) { passcode in
        try unsafe connection.setHost(id, classes: [.complete, .none], with: .passcode(passcode))
        #expect(throws: ControlError.self) {
          try unsafe connection.setHost("no digits", classes: [.complete], with: .passcode(passcode))
        }
      }
      #expect(try connection.lockHosts(inactive: true, timeout: .seconds(2)) == ["web2"])
      #expect(try connection.lockHosts(everyClass: true) == ["web2"])
      #expect(throws: ControlError.self) { _ = try connection.lockHosts(timeout: .seconds(-1)) }
      #expect(
        daemon.state.withLock { $0.changes } == [
          "host \(id) AD", "lock hosts lockInactive 2.0 seconds", "lock hosts lockEveryClass 30.0 seconds",
        ])
    }
  }

  @Test func aWrongSecretChangesNothing() throws {
    try FakeDaemon.withServer { daemon, server in
      try unsafe with(Array("wrong".utf8)) { wrong in
        var connection = try DaemonConnection(socketPath: server.socketPath)
        for call in 0..<4 {
          let error = #expect(throws: ControlError.self) {
            switch call {
            case 0: try unsafe connection.addKey(.passcode(wrong), label: "x", with: .passcode(wrong))
            case 1: try unsafe connection.removeKey("00", with: .recoveryKey(wrong))
            case 2: try unsafe connection.erase(.complete, with: .passcode(wrong))
            default:
              let other = try DaemonConnection(socketPath: server.socketPath)
              try unsafe other.rotate(.complete, with: .passcode(wrong)) { _ in true }
            }
          }
          #expect(error?.code == .wrongPasscode)
        }
      }
      #expect(daemon.state.withLock { $0.changes } == [])
    }
  }

  @Test(arguments: ["", "0", "0g", "é0"]) func otherDigitsAreNone(_ text: String) {
    #expect([UInt8](hexadecimal: text) == (text.isEmpty ? [] : nil))
    #expect((SecretBytes(hexadecimal: SecretBytes(Array(text.utf8))) == nil) == !text.isEmpty)
  }
}
