import Foundation

// A module that has Foundation alone. A mark at the end of a line says what is found there.

func store(_ data: Data, at url: URL, with options: Data.WritingOptions) throws {
  try data.write(to: url, options: .completeFileProtection)  // loses: call
  try data.write(to: url, options: [.atomic, .completeFileProtectionUnlessOpen])  // loses: call
  try data.write(to: url, options: options)  // may lose: call
  try? data.write(to: url, options: .noFileProtection)  // loses: call
  try data.write(to: url)
  try data.write(to: url, options: .atomic)
  try data.write(to: url, options: [])
  try data.write(to: url, options: [Data.WritingOptions.atomic, .withoutOverwriting])
  try data.write(  // loses: call
    to: url.appending(path: "ä\")(,"),  // options: .atomic)
    options: .completeFileProtection)
  let word = "ä"; try Data(word.utf8).write(to: url, options: .completeFileProtection)  // loses: call
  try [data].forEach { try $0.write(to: url, options: .completeFileProtection) }  // loses: call
  try data.write(to: url, options: .completeFileProtection)  // protection-lint:ignore
  // protection-lint:ignore
  try data.write(to: url, options: .completeFileProtection)
}

func storeObject(_ data: NSData, _ copy: NSMutableData, at url: URL) throws {
  try data.write(to: url, options: .completeFileProtection)  // loses: call
  try data.write(toFile: url.path, options: .completeFileProtection)  // loses: call
  try copy.write(to: url, options: .completeFileProtection)  // loses: call
  try data.write(toFile: url.path, options: .atomic)
  _ = data.write(toFile: url.path, atomically: true)
}

func create(_ path: String, _ attributes: [FileAttributeKey: Any]) throws {
  let files = FileManager.default
  try files.setAttributes([.protectionKey: FileProtectionType.complete], ofItemAtPath: path)  // loses: call
  try files.setAttributes([.init(rawValue: "NSFileProtectionKey"): 1], ofItemAtPath: path)  // loses: call
  try files.setAttributes([.posixPermissions: 0o600, .type: "a,b"], ofItemAtPath: path)
  try files.setAttributes(attributes, ofItemAtPath: path)  // may lose: call
  _ = files.createFile(atPath: path, contents: nil, attributes: [FileAttributeKey.protectionKey: 1])  // loses: call
  _ = files.createFile(atPath: path, contents: nil)
  _ = files.createFile(atPath: path, contents: nil, attributes: nil)
  try files.createDirectory(atPath: path, withIntermediateDirectories: true)
  try files.createDirectory(atPath: path, withIntermediateDirectories: true, attributes: [:])
  let url = URL(fileURLWithPath: path)
  let kept: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
  try files.createDirectory(at: url, withIntermediateDirectories: true, attributes: kept)  // may lose: call
  try files.copyItem(at: url, to: url)  // may lose: call
  try files.copyItem(atPath: path, toPath: path)  // may lose: call
  _ = try files.replaceItemAt(url, withItemAt: url)  // may lose: call
  try files.moveItem(at: url, to: url)  // may lose: call
  try files.moveItem(atPath: path, toPath: path)  // may lose: call
}

func read(_ path: String) throws -> Any? {
  (try? FileManager.default.attributesOfItem(atPath: path))?[.protectionKey]  // loses: call
}

func readLater(_ path: String) throws -> Any? {
  let attributes = try FileManager.default.attributesOfItem(atPath: path)  // may lose: call
  return attributes[.protectionKey]
}

func readSize(_ path: String) throws -> Any? {
  let attributes = try FileManager.default.attributesOfItem(atPath: path)
  return try attributes[.size] ?? FileManager.default.attributesOfItem(atPath: path)[.size]
}

/// Not Foundation's: what it does with the class is its own matter.
struct Files {
  func createFile(atPath path: String, contents: Data?, attributes: [FileAttributeKey: Any]?) -> Bool { true }
}

func own() {
  _ = Files().createFile(atPath: "", contents: nil, attributes: [.protectionKey: FileProtectionType.complete])
}

class Subclass: FileManager, @unchecked Sendable {
  override func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
    try super.setAttributes(attributes, ofItemAtPath: path)  // may lose: call
  }
}
