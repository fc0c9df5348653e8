import BackingTree
import Glibc
import InProcessKernel
import ProtectfsIO
import SystemPackage
import Testing

@testable import MountDaemon

/// Which inodes the daemon keeps for the kernel.
@Suite struct InodeTests {
  /// Whatever made the kernel know a file, the daemon forgets it with the kernel; files that are open stay.
  @Test func areForgottenWithTheKernel() throws {
    try InProcessStore.with { store in
      let kernel = store.kernel
      try kernel.makeDirectory("d")
      try kernel.makeSymbolicLink("d/link", to: "file")
      try kernel.makeNode("d/fifo", mode: S_IFIFO | 0o600)
      var file: OpenInode? = try kernel.open("d/file", O_RDWR | O_CREAT)
      try kernel.link("d/file", as: "d/second")
      try kernel.rename("d/second", to: "d/renamed")
      for lookingUp in [true, false] {
        #expect(try kernel.items(of: "d", lookingUp: lookingUp, capacity: 200).count == 6)
      }
      #expect(try kernel.status(of: "d/link", following: true).nlink == 2)
      #expect(throws: Errno.noSuchFileOrDirectory) { try kernel.status(of: "d/none") }
      try wait(for: 2, in: store)
      withExtendedLifetime(file) {}
      file = nil
      try wait(for: 0, in: store)
    }
  }

  /// A file without a name lives as long as the kernel knows it, and its place is free then.
  @Test func outliveTheirNamesWhileTheyAreOpen() throws {
    try InProcessStore.with { store in
      let kernel = store.kernel
      var file: OpenInode? = try kernel.open("file", O_RDWR | O_CREAT)
      try file?.write([1, 2, 3], at: 0)
      try kernel.unlink("file")
      #expect(try kernel.names(in: "/").isEmpty)
      #expect(try file?.read(at: 0, count: 10) == [1, 2, 3])
      #expect(try file?.status().nlink == 0)
      file = nil
      try wait(for: 0, in: store)
      try kernel.makeDirectory("file")
    }
  }

  /// Requests that have no answer are on their way for a while.
  private func wait(for count: Int, in store: InProcessStore) throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while store.daemon.daemon.tree.nodes.count != count {
      try #require(ContinuousClock.now < deadline, "\(store.daemon.daemon.tree.nodes.count) are known")
      usleep(1000)
    }
  }
}
