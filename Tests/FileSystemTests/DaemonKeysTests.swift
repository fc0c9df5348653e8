import Cryptography
import Glibc
import InProcessKernel
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import Testing

@testable import KeyManagement
@testable import MountDaemon

/// The keys of a daemon while others change the keybag.
@Suite struct DaemonKeysTests {
  /// Others erase the store after the daemon has erased a class: the class's new key does not come into memory.
  @Test func noNewKeyComesIntoAnErasedStore() throws {
    try InProcessStore.with { store in
      let daemon = store.daemon.daemon
      let (destruction, failure) = try daemon.eraseOnDisk(.complete, with: store.secret())
      #expect(failure == nil)
      let erasure = try KeybagFile(backing: daemon.backing).erase(
        daemon.keybag.withLock { $0 }, deviceKey: daemon.deviceKey)
      daemon.wipeErased(erasure.tombstone)
      daemon.machine.destroy(destruction)
      for fileClass in ProtectionClass.allCases { #expect(!daemon.controller.holdsKey(of: fileClass), "\(fileClass)") }
    }
  }

  /// A rotation of another class changes the keybag while the daemon takes the old key out of memory.
  @Test func anErasedClassHasItsNewKeyBesideARotation() throws {
    try InProcessStore.with { store in
      let daemon = store.daemon.daemon
      let rotation = try daemon.beginRotation(of: .completeUntilFirstUserAuthentication, with: store.secret())
      let (destruction, failure) = try daemon.eraseOnDisk(.complete, with: store.secret())
      #expect(failure == nil)
      let erased = daemon.keybag.withLock { $0.generation }
      try rotation.run { _ in true }
      #expect(daemon.keybag.withLock { $0.generation } > erased + 1)
      daemon.machine.destroy(destruction)
      #expect(daemon.controller.holdsKey(of: .complete))
      try store.kernel.makeDirectory("d")
      try store.kernel.setAttribute("user.protectfs.class", of: "d", to: Array("complete".utf8))
      #expect(try store.kernel.open("d/file", O_RDWR | O_CREAT).write([1], at: 0) == 1)
    }
  }

  /// A keybag that others have put in place is taken over as a whole, by the unlock that opens it, or not at all.
  @Test func othersKeybagIsTakenOverAsAWhole() throws {
    try InProcessStore.with({ $0.isShared = true }) { store in
      let daemon = store.daemon.daemon
      let own = daemon.keybag.withLock { $0 }
      let file = try KeybagFile(backing: daemon.backing)
      let change = try file.open(own, with: store.secret(), deviceKey: daemon.deviceKey).changed(
        by: .beginRotation(.complete))
      let new = try #require(change.keybag.keyIDs(of: .complete).last)
      try file.commit(change)
      // Who has the device key has exchanged something that only an unlock can verify.
      var forged = change.keybag.record
      forged.seal[0] ^= 1
      forged.tag = try Keybag.tag(of: forged, daemon.deviceKey)
      try put(forged.bytes, in: file)
      try daemon.lock(gracePeriod: .zero, includingInactive: false, wait: true)
      #expect(try #require(throws: ControlError.self) { try daemon.unlock(store.secret()) }.code == .keybagCorrupt)
      func expectOwn() {
        #expect(daemon.keybag.withLock { $0 } == own && !daemon.controller.knowsKey(new, of: .complete))
        #expect(daemon.machine.state.lockState == .locked && !daemon.controller.holdsKey(of: .complete))
      }
      expectOwn()
      try put(change.keybag.bytes, in: file)
      let wrong = try #require(throws: ControlError.self) {
        try daemon.unlock(.passcode(SecretBytes(Array("wrong".utf8))))
      }
      #expect(wrong.code == .wrongPasscode)
      expectOwn()

      try daemon.unlock(store.secret())
      #expect(daemon.keybag.withLock { $0 } == change.keybag && daemon.controller.knowsKey(new, of: .complete))
      for fileClass in ProtectionClass.allCases { #expect(daemon.controller.holdsKey(of: fileClass), "\(fileClass)") }
    }
  }

  /// A lock that finds nothing to lock counts too: who asks for it takes the mount for locked from then on.
  @Test func aLaterLockCancelsAnUnlock() throws {
    try InProcessStore.with { store in
      let daemon = store.daemon.daemon
      try daemon.lock(gracePeriod: .zero, includingInactive: false, wait: true)
      let beginning = daemon.beginUnlock()
      try daemon.lock(gracePeriod: .zero, includingInactive: false, wait: true)
      let error = try #require(throws: ControlError.self) { try daemon.unlock(store.secret(), beginning) }
      #expect(error.code == .unlockCancelled && !daemon.controller.holdsKey(of: .complete))
      let later = daemon.beginUnlock()
      try daemon.lockAll()
      let second = try #require(throws: ControlError.self) { try daemon.unlock(store.secret(), later) }
      #expect(second.code == .unlockCancelled && !daemon.controller.holdsKey(of: .standard))
      try daemon.unlock(store.secret())
      #expect(daemon.controller.holdsKey(of: .complete))
    }
  }
}

private func put(_ bytes: [UInt8], in file: borrowing KeybagFile) throws(Errno) {
  try file.directory.open(KeybagFile.name, [.writeOnly, .truncate]).write(bytes)
}

extension InProcessStore {
  fileprivate func secret() -> UnlockSecret { .recoveryKey(recoveryKey.text.copy()) }
}
