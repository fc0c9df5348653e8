import DataProtection
import Foundation

// A module that imports the library: calls are the library's, unless Foundation's method is named by other means.

func values(_ data: Data) throws {
  let write = data.write(to:options:)  // may lose: value
  try write(URL(fileURLWithPath: "/"), .completeFileProtection)
  let typed: (URL, Data.WritingOptions) throws -> Void = data.write  // may lose: value
  let unbound = FileManager.setAttributes(_:ofItemAtPath:)  // may lose: value
  _ = (typed, unbound)
  try data.write(to:options:)(URL(fileURLWithPath: "/"), .completeFileProtection)  // loses: call
  try data.write(to:options:)(URL(fileURLWithPath: "/"), .atomic)
}

protocol Filing {
  func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws
  func createFile(atPath path: String, contents data: Data?, attributes attr: [FileAttributeKey: Any]?) -> Bool
}

extension FileManager: Filing {}  // loses: conformance

struct Mock: Filing {
  func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {}
  func createFile(atPath path: String, contents data: Data?, attributes attr: [FileAttributeKey: Any]?) -> Bool { true }
}

func existential(_ files: any Filing) throws {
  try files.setAttributes([.protectionKey: FileProtectionType.complete], ofItemAtPath: "/")  // loses: requirement
  try files.setAttributes([.size: 1], ofItemAtPath: "/")
  _ = files.createFile(atPath: "/", contents: nil, attributes: nil)
}

func generic(_ files: some Filing) throws {
  try files.setAttributes([.protectionKey: FileProtectionType.complete], ofItemAtPath: "/")  // loses: requirement
}

func mock() throws {
  try Mock().setAttributes([.protectionKey: FileProtectionType.complete], ofItemAtPath: "/")
}

protocol Writing {
  func write(to url: URL, options: Data.WritingOptions) throws
}

extension Data: Writing {}  // protection-lint:ignore

func silenced(_ data: any Writing) throws {
  try data.write(to: URL(fileURLWithPath: "/"), options: .completeFileProtection)
}

/// An adapter, as the lint advises it.
struct ProtectedFiles: Filing {
  func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
    try FileManager.default.setAttributes(attributes, ofItemAtPath: path)
  }

  func createFile(atPath path: String, contents data: Data?, attributes attr: [FileAttributeKey: Any]?) -> Bool { true }
}

class Subclass: FileManager, @unchecked Sendable {
  override func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
    try super.setAttributes(attributes, ofItemAtPath: path)
  }
}

/// Not Foundation's, but a member of its class.
extension FileManager {
  func copyItem(at url: URL, to: URL) throws {}
}

func own(_ url: URL) throws {
  try FileManager.default.copyItem(at: url, to: url)
}
