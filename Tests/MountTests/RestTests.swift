import Glibc
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// A mount that was locked for long goes back to the state before the first unlock.
  @Suite(.serialized) struct RestTests {
    @Test func everythingIsLocked() throws {
      unsafe setenv("PROTECTFS_TEST_SHORT_REST", "1", 1)
      defer { unsafe unsetenv("PROTECTFS_TEST_SHORT_REST") }
      try Volume.with(["-o", "allow_other,at_rest=1s"]) { volume in
        let (path, free) = (volume.path("file"), volume.path("free"))
        let contents = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 3) }
        try free.write("free")
        try free.setProtectionClass(.none)
        let file = try OpenFile(path, O_RDWR | O_CREAT)
        try file.write(contents, at: 0)
        let mapping = try Mapping(file, count: 4096)
        #expect(try mapping.read(at: 0, count: 16) == Array(contents[..<16]))
        var events = try EventConnection(volume.connection())
        #expect(try events.next(patience: 60) == .monitoringBegan(.unlocked))
        try volume.lock()
        try volume.wait(for: .beforeFirstUnlock)
        #expect(throws: Errno.permissionDenied) { try file.read(at: 0, count: 1) }
        #expect(throws: Errno.permissionDenied) { try path.contents() }
        #expect(throws: Errno.self) { try mapping.read(at: 0, count: 1) }
        #expect(try free.contents() == Array("free".utf8))
        #expect(try volume.status().secondsUntilRest == nil)
        var lost: [ProtectionClass] = []
        while !lost.contains(.completeUntilFirstUserAuthentication) {
          if case .didBecomeUnavailable(let classes) = try events.next(patience: 60) { lost += classes }
        }
        #expect(Set(lost) == Set(ProtectionClass.allCases).subtracting([.none]))
        try volume.unlock()
        #expect(try path.contents() == contents, "what was written before is there")
      }
    }

    @Test func statusShowsTheTime() throws {
      try Volume.with(["-o", "allow_other,at_rest=10m"], unlocked: false) { volume in
        #expect(try volume.status().secondsUntilRest == nil, "never unlocked")
        try volume.unlock()
        #expect(try volume.status().secondsUntilRest == nil)
        try volume.lock()
        #expect((1...600).contains(try volume.status().secondsUntilRest ?? 0))
        let report = try Command.run(["status", volume.mountPoint.description])
        #expect(report.output.contains("at rest in"), "\(report.output)")
        try volume.unlock()
        #expect(try volume.status().secondsUntilRest == nil)
      }
    }
  }
}
