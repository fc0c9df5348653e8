import Foundation
import ProtectfsIO
import Synchronization
import SystemPackage
import Testing

/// Trees that others change while they are visited.
@Suite struct DirectoryTreeTests {
  /// With several threads, each visits a part of a large directory.
  @Test(arguments: [1, 4]) func whatIsRemovedIsNoFailure(threads: Int) throws {
    let root = FileManager.default.temporaryDirectory.appending(path: "protectfs-tree.\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: root, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: root) }
    let directory = try Descriptor.open(PathName(root.path), [.path, .directory])
    let names = (0..<200).map { PathName("file \($0)") }
    for name in names { _ = try directory.open(name, [.writeOnly, .create], mode: 0o600) }
    let opened = SharedDescriptor(directory)
    let visited = Mutex<[String]>([])
    let isChanged = Mutex(false)
    DirectoryTree.visit(
      root.path, threads: threads,
      report: { (path, error) in #expect(error == nil, "\(path)") }
    ) { (item, path) throws(Errno) in
      let name = String(path.dropFirst(root.path.utf8.count + 1))
      try isChanged.withLock { (isChanged) throws(Errno) in
        guard !isChanged else { return }
        isChanged = true
        for other in names where other.description != name {
          // Half are removed, and half get other names.
          if other.bytes.last! % 2 == 0 {
            try opened.descriptor.unlink(other)
          } else {
            try opened.descriptor.rename(other, to: PathName("new \(other)"), in: opened.descriptor)
          }
        }
      }
      visited.withLock { $0.append(name) }
    }
    let found = visited.withLock { Set($0) }
    let left = try opened.descriptor.names().map(\.description)
    #expect(left.count >= 100 && Set(left).isSubset(of: found), "\(Set(left).subtracting(found))")
  }
}
