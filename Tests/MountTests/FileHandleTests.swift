import CSystemCalls
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// File handles, by which NFS and programs with CAP_DAC_READ_SEARCH open files (open_by_handle_at(2)).
  @Suite struct FileHandleTests {
    /// A handle opens its own file while the kernel keeps the inode, and nothing afterwards: not another file, whose
    /// node has come to lie at the address by which the kernel called that of the first.
    @Test func aHandleOpensNoOtherFile() throws {
      try Volume.with { volume in
        let (first, second) = (volume.path("first"), volume.path("second"))
        for directory in [first, second] { try directory.makeDirectory() }
        let files = (0..<200).map { first.appending("\($0)") }
        let others = (0..<200).map { second.appending("\($0)") }
        for path in files + others { try path.write("") }
        let handles = try files.map { ($0, try FileHandle(of: $0), try $0.status().inode) }
        let mount = try Descriptor.open(volume.mountPoint, [.readOnly, .directory])
        for (path, handle, inode) in handles { #expect(try handle.inode(in: mount) == inode, "\(path)") }
        for _ in 0..<3 {
          try dropCaches()
          for path in others { _ = try path.status() }
          for (path, handle, inode) in handles {
            do throws(Errno) {
              let opened = try handle.inode(in: mount)
              #expect(opened == inode, "\(path)")
            } catch {
              #expect(error == .staleNFSFileHandle, "\(path)")
            }
          }
        }
      }
    }
  }
}

private struct FileHandle {
  private var handle = calls_handle()

  init(of path: PathName) throws(Errno) {
    try check(unsafe path.withCString { unsafe calls_handle($0, &handle) })
  }

  /// The inode number of what it opens.
  func inode(in mount: borrowing Descriptor) throws(Errno) -> UInt64 {
    let number = try check(unsafe withUnsafePointer(to: handle) { unsafe calls_open_handle(mount.rawValue, $0) })
    return try Descriptor(owning: number).status().inode
  }
}
