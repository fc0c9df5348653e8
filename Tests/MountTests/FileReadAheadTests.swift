import Glibc
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// What a program will read next, of the files of a directory, is read from the disk before it asks for it.
  @Suite(.serialized) struct FileReadAheadTests {
    private static let options = ["-o", "allow_other"]
    private static let count = 80

    private struct File {
      let path: PathName
      let backing: Mapping
      let inode: UInt64
      var isCached: Bool { get throws { try backing.residentPages() > 0 } }
    }

    enum Order: CaseIterable {
      case inodes, names
    }

    /// Files of whose contents nothing is in a cache.
    private func files(on volume: Volume, by order: Order = .inodes) throws -> [File] {
      let paths = (0..<Self.count).map { volume.path("file \($0 * 37 % Self.count + 100)") }
      for path in paths { try path.write(String(repeating: "contents ", count: 800)) }
      try volume.remount(Self.options)
      try volume.unlock()
      let files = try paths.map { path in
        let backing = try OpenFile(volume.backingFile(of: path), O_RDWR)
        try backing.synchronize()
        posix_fadvise(backing.descriptor, 0, 0, POSIX_FADV_DONTNEED)
        return File(path: path, backing: try Mapping(backing, count: 4096), inode: try path.status().inode)
      }
      return files.sorted { order == .names ? $0.path.description < $1.path.description : $0.inode < $1.inode }
    }

    /// Reads files from a disk that is slow.
    private func readSlowly(_ files: some Sequence<File>, _ faults: Faults) throws {
      faults.arm(.slow, at: 1, of: [.reads])
      defer { faults.disarm() }
      for file in files { _ = try file.path.contents() }
    }

    @Test(arguments: Order.allCases) func staysAheadOfAProgram(_ order: Order) throws {
      try Volume.withFaults(Self.options) { volume, faults in
        let files = try files(on: volume, by: order)
        guard try !files.contains(where: { try $0.isCached }) else {
          try Test.cancel("the file system of temporary files has no disk")
        }
        try readSlowly(files[..<3], faults)
        #expect(try eventually { try files[3..<30].allSatisfy { try $0.isCached } })
        // Not more than that.
        #expect(try !files[40...].contains { try $0.isCached })
        for file in files[3..<30] { _ = try file.path.contents() }
        #expect(try eventually { try files[30..<50].allSatisfy { try $0.isCached } })
        for file in files[30...] { _ = try file.path.contents() }
      }
    }

    @Test func readsNothingAheadOfWhatGoesHereAndThere() throws {
      try Volume.withFaults(Self.options) { volume, faults in
        let files = try files(on: volume)
        guard try !files.contains(where: { try $0.isCached }) else {
          try Test.cancel("the file system of temporary files has no disk")
        }
        let chosen = [0, 60, 20, 40].map { files[$0] }
        try readSlowly(chosen, faults)
        usleep(300_000)
        #expect(try files.filter { try $0.isCached }.map(\.inode) == chosen.map(\.inode).sorted())
      }
    }
  }
}
