import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// fsync(2), and what limits the files that the daemon writes.
  @Suite struct SynchronizeTests {
    /// FUSE passes on what is written, and not syncfs(2).
    @Test func aMountIsNotSynchronizedAsAWhole() throws {
      try Volume.with { volume in
        let areWhole = try [volume.mountPoint, volume.backing].map { path in
          try Descriptor.open(path, [.readOnly]).isSynchronizedWhole
        }
        #expect(areWhole == [false, true])
      }
    }

    /// The kernel tells of an error of write-back once for each descriptor of the daemon, which all handles share.
    @Test func everyoneWithTheFileOpenIsTold() throws {
      try Volume.withFaults { volume, faults in
        let path = volume.path("file")
        try path.write("contents")
        let (first, second) = try (OpenFile(path, O_RDWR), OpenFile(path, O_RDWR))
        try first.write([1], at: 0)
        let (error, hit) = faults.during(.fail(.ioError), at: 1, of: .flushes) { () throws(Errno) in
          try first.synchronize()
        }
        #expect(error == .ioError && hit == "fsync")
        let opened = try OpenFile(path, O_RDWR)
        #expect(try PendingCall { () throws(Errno) in try second.synchronize() }.result() == .ioError)
        #expect(try PendingCall { () throws(Errno) in try opened.synchronize() }.result() == nil, "opened after it")
        try first.synchronize()
      }
    }

    /// The limit of whoever mounts is not one for all users of the mount, and ends nobody.
    @Test func fileSizeLimitOfTheDaemon() throws {
      try Volume.with { volume in
        volume.kill()
        try volume.mountPoint.unmount(isLazy: true)
        try volume.mount(through: ["bash", "-c", #"ulimit -S -f 64; exec "$@""#, "-"])
        try volume.unlock()
        let contents = pattern(1, count: 1 << 20)
        let file = try OpenFile(volume.path("file"), O_RDWR | O_CREAT)
        try file.write(contents, at: 0)
        try file.synchronize()
        try expectSame(volume.path("file").contents(), contents)
      }
    }
  }
}
