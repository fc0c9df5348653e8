import Foundation
import ProtectfsIO
import SystemPackage
import Testing

/// A directory on the disk, removed after a test.
struct Scratch: ~Copyable {
  let url: URL

  init() throws {
    url = URL(fileURLWithPath: "/tmp/protectfs-library.\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  subscript(_ name: String) -> URL { url.appendingPathComponent(name) }

  func path(_ name: String) -> PathName { PathName(self[name].path) }

  func write(_ text: String, to name: String) throws { try Data(text.utf8).write(to: self[name]) }

  func text(_ name: String) throws -> String { try String(contentsOf: self[name], encoding: .utf8) }

  /// Everything below.
  func names() throws -> Set<String> { Set(try FileManager.default.subpathsOfDirectory(atPath: url.path)) }
}

extension PathName {
  func status() throws(Errno) -> Status { try Descriptor.open(self, [.path, .noFollow]).status() }
}

/// A delegate that answers all questions the same way, and notes those about copies and moves.
final class AskedDelegate: NSObject, FileManagerDelegate, @unchecked Sendable {
  var isWanted: (URL) -> Bool = { _ in true }
  var proceeds = false
  private(set) var asked: [String] = []
  private(set) var errors: [(URL, CocoaError.Code?)] = []

  private func ask(_ source: URL) -> Bool {
    asked.append(source.lastPathComponent)
    return isWanted(source)
  }

  private func note(_ error: any Error, _ source: URL) -> Bool {
    errors.append((source, (error as? CocoaError)?.code))
    return proceeds
  }

  func fileManager(_: FileManager, shouldCopyItemAt source: URL, to _: URL) -> Bool { ask(source) }
  func fileManager(_: FileManager, shouldMoveItemAt source: URL, to _: URL) -> Bool { ask(source) }
  func fileManager(_: FileManager, shouldProceedAfterError error: any Error, copyingItemAt source: URL, to _: URL)
    -> Bool
  { note(error, source) }
  func fileManager(_: FileManager, shouldProceedAfterError error: any Error, movingItemAt source: URL, to _: URL)
    -> Bool
  { note(error, source) }

  func fileManager(_: FileManager, shouldLinkItemAt _: URL, to _: URL) -> Bool { true }
  func fileManager(_: FileManager, shouldRemoveItemAt _: URL) -> Bool { true }
  func fileManager(_: FileManager, shouldCopyItemAtPath _: String, toPath _: String) -> Bool { true }
  func fileManager(_: FileManager, shouldMoveItemAtPath _: String, toPath _: String) -> Bool { true }
  func fileManager(_: FileManager, shouldLinkItemAtPath _: String, toPath _: String) -> Bool { true }
  func fileManager(_: FileManager, shouldRemoveItemAtPath _: String) -> Bool { true }
  func fileManager(_: FileManager, shouldProceedAfterError _: any Error, linkingItemAt _: URL, to _: URL) -> Bool {
    false
  }
  func fileManager(_: FileManager, shouldProceedAfterError _: any Error, removingItemAt _: URL) -> Bool { false }
  func fileManager(_: FileManager, shouldProceedAfterError _: any Error, copyingItemAtPath _: String, toPath _: String)
    -> Bool
  { false }
  func fileManager(_: FileManager, shouldProceedAfterError _: any Error, movingItemAtPath _: String, toPath _: String)
    -> Bool
  { false }
  func fileManager(_: FileManager, shouldProceedAfterError _: any Error, linkingItemAtPath _: String, toPath _: String)
    -> Bool
  { false }
  func fileManager(_: FileManager, shouldProceedAfterError _: any Error, removingItemAtPath _: String) -> Bool { false }
}
