import Glibc
import ProtectfsPolicy
import Testing

extension MountTests {
  /// What is left in the daemon's memory, and in the kernel's page cache, after a lock.
  @Suite struct MemoryTests {
    @Test func afterALockNothingOfClassAIsLeft() throws {
      try Volume.with(unlocked: false) { volume in
        try volume.unlock(Volume.passcode)
        let plaintext = try Plaintext(of: .complete, on: volume)
        let keys = try StoreKeys(of: volume)
        var needles = plaintext.needles
        needles.add("the key of class A", keys.classKeys[.complete]!)
        needles.add("the keybag key", keys.keybagKey)
        for file in plaintext.files { needles.add("a file's key", try keys.fileKeys(of: file, on: volume)) }
        needles.add("the passcode", Array(Volume.passcode.utf8))

        // While unlocked the key is there, which shows that the search works.
        var key = Needles()
        key.add("the key of class A", keys.classKeys[.complete]!)
        #expect(try key.find(in: volume.processID).count > 0)

        try volume.lock()
        try needles.expectNone(in: volume.processID)
        try plaintext.expectUnreadable()
        #expect(try needles.find(in: volume.processID).count == 0, "what was refused left something behind")
      }
    }

    /// What was read and written before a file was raised is left nowhere either.
    @Test(arguments: [ProtectionClass.completeUntilFirstUserAuthentication, .none])
    func raisedFilesLeaveNothing(_ old: ProtectionClass) throws {
      try Volume.with(unlocked: false) { volume in
        try volume.unlock(Volume.passcode)
        let plaintext = try Plaintext(of: old, on: volume)
        for file in plaintext.files { try file.setProtectionClass(.complete) }
        try volume.waitForRekeys()
        try volume.lock()
        try plaintext.needles.expectNone(in: volume.processID)
        try plaintext.expectUnreadable()
      }
    }

    @Test func closedFilesOfClassBAreGoneToo() throws {
      try Volume.with(unlocked: false) { volume in
        try volume.unlock(Volume.passcode)
        let plaintext = try Plaintext(of: .completeUnlessOpen, on: volume)
        let keys = try StoreKeys(of: volume)
        var needles = plaintext.needles
        needles.add("the key of class B", keys.classKeys[.completeUnlessOpen]!)
        for file in plaintext.files { needles.add("a file's key", try keys.fileKeys(of: file, on: volume)) }
        plaintext.close()
        try volume.lock()
        try needles.expectNone(in: volume.processID)
      }
    }

    /// The handle keeps working after the lock. When it is closed, its key and pages are dropped.
    @Test func lastCloseOfClassBWipesItsKey() throws {
      try Volume.with(unlocked: false) { volume in
        try volume.unlock(Volume.passcode)
        let plaintext = try Plaintext(of: .completeUnlessOpen, on: volume)
        let keys = try StoreKeys(of: volume)
        var needles = plaintext.needles
        for file in plaintext.files { needles.add("a file's key", try keys.fileKeys(of: file, on: volume)) }
        try volume.lock()
        #expect(try needles.find(in: volume.processID).count > 0)
        try plaintext.readAgain()
        plaintext.close()
        // release(2) is asynchronous.
        var found = try needles.find(in: volume.processID)
        try eventually {
          found = try needles.find(in: volume.processID)
          return found.count == 0
        }
        #expect(found.count == 0, "\(found.first ?? "") is in memory; \(found.count) places in all")
      }
    }

    @Test func classCXGoesWhenItsPeriodEnds() throws {
      try Volume.with(["-o", "allow_other,inactive=1"], unlocked: false) { volume in
        try volume.unlock(Volume.passcode)
        let plaintext = try Plaintext(of: .completeWhenUserInactive, on: volume)
        let keys = try StoreKeys(of: volume)
        var needles = plaintext.needles
        needles.add("the key of class CX", keys.classKeys[.completeWhenUserInactive]!)
        for file in plaintext.files { needles.add("a file's key", try keys.fileKeys(of: file, on: volume)) }
        try volume.lock()
        try volume.wait(for: .inactive)
        try needles.expectNone(in: volume.processID)
        try plaintext.expectUnreadable()
      }
    }
  }
}
