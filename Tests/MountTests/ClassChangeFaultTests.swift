import Glibc
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import Testing

extension MountTests {
  /// Changes of class whose calls on the backing store fail or hang.
  @Suite struct ClassChangeFaultTests {
    /// The record was replaced although the call failed: the file has the new key from then on.
    @Test func anErrorAfterTheRecordWasReplaced() throws {
      try Volume.withFaults { volume, faults in
        let path = volume.path("file")
        let file = try OpenFile(path, O_RDWR | O_CREAT)
        let (_, hit) = faults.during(.failAfter(.ioError), at: 1, of: .room) { () throws(Errno) in
          try path.setProtectionClass(.complete)
        }
        #expect(hit == "fsetxattr")
        let contents = pattern(1, count: 20_000)
        try file.write(contents, at: 0)
        try file.synchronize()
        volume.kill()
        try volume.mountPoint.unmount(isLazy: true)
        try volume.mount()
        try volume.unlock()
        try expectSame(path.contents(), contents)
      }
    }

    /// The class changes between an open's calls on the store: the file is opened as it was before, or as it is then.
    @Test func anOpenAroundAChange() throws {
      try Volume.withFaults { volume, faults in
        let path = volume.path("file")
        try path.write("contents")
        var held: Set<String> = []
        var number = 0
        var isHeld = true
        while isHeld {
          number += 1
          isHeld = false
          for fileClass in [ProtectionClass.complete, .completeUntilFirstUserAuthentication] {
            try volume.finishRekeys()
            faults.arm(.count, at: 0, of: [.changes, .reads])
            faults.settle()
            faults.arm(.hold, at: number, of: .reads)
            let opened = Mutex<OpenFile?>(nil)
            let open = PendingCall { () throws(Errno) in
              let file = try OpenFile(path, O_RDONLY)
              opened.withLock { $0 = file }
            }
            while faults.hanging == 0, open.isPending { usleep(1000) }
            if faults.hanging > 0 { isHeld = true } else { faults.disarm() }
            try path.setProtectionClass(fileClass)
            faults.disarm()
            let place = "held after call \(number), \(faults.hit ?? "none")"
            #expect(try open.result() == nil, "\(place)")
            #expect(try opened.withLock { $0 }?.read(at: 0, count: 10) == Array("contents".utf8), "\(place)")
            if let hit = faults.hit { held.insert(hit) }
          }
        }
        #expect(held.contains("fgetxattr"), "\(held)")
        #expect(!volume.log.contains("older record"))
      }
    }

    /// A file that is open in class B comes into class A while both are locked. What was written to it before is kept.
    @Test func aLockDuringAChangeFromBToA() throws {
      try Volume.withFaults { volume, faults in
        let path = volume.path("file")
        let file = try OpenFile(path, O_RDWR | O_CREAT)
        try path.setProtectionClass(.completeUnlessOpen)
        try volume.finishRekeys()
        let contents = pattern(1, count: 100_000)
        faults.settle()
        try file.write(contents, at: 0)
        faults.arm(.hang, at: 1, of: .room)
        let change = PendingCall { () throws(Errno) in try path.setProtectionClass(.complete) }
        eventually { faults.hanging > 0 }
        #expect(faults.hit == "fsetxattr")
        let lock = PendingCall { () throws(Errno) in
          do { try volume.lock() } catch { throw Errno.ioError }
        }
        // A lock that does not find the file is done by then.
        _ = try? lock.result(seconds: 1)
        faults.disarm()
        #expect(try lock.result() == nil)
        #expect(try change.result() == nil)
        #expect(throws: Errno.permissionDenied) { try path.contents() }
        try volume.unlock()
        try expectSame(path.contents(), contents)
      }
    }

    /// A listing has every name, or it fails.
    @Test func aListingThatFails() throws {
      try Volume.withFaults { volume, faults in
        let names = ["a", "b", "c"].map { PathName(FaultOperation.long($0)) }
        for number in 1... {
          let directory = volume.path("\(number)")
          try directory.makeDirectory()
          for name in names { try directory.appending(bytes: Array(name.bytes)).write("x") }
          var found: [PathName] = []
          let (error, hit) = faults.during(.fail(.ioError), at: number, of: .reads) { () throws(Errno) in
            found = try directory.names()
          }
          if error == nil { #expect(found == names, "call \(number), \(hit ?? "none")") }
          guard hit != nil else {
            #expect(number > 4, "a listing makes so few calls")
            break
          }
          #expect(try directory.names() == names, "call \(number), again")
        }
      }
    }
  }
}
