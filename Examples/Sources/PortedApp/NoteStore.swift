import DataProtection
import Foundation

/// The files of a notes app, as it was written for iOS. The first line is what was added for Linux.
struct NoteStore {
  let directory: URL

  private var notes: URL { directory.appendingPathComponent("Notes", isDirectory: true) }
  private var drafts: URL { directory.appendingPathComponent("Drafts", isDirectory: true) }
  private var settings: URL { directory.appendingPathComponent("Settings.json") }

  init(directory: URL) throws {
    self.directory = directory
    try FileManager.default.createDirectory(
      at: notes, withIntermediateDirectories: true, attributes: [.protectionKey: FileProtectionType.complete])
    try FileManager.default.createDirectory(
      at: drafts, withIntermediateDirectories: true,
      attributes: [.protectionKey: FileProtectionType.completeUnlessOpen])
  }

  func note(_ title: String) -> URL { notes.appendingPathComponent(title).appendingPathExtension("txt") }
  func draft(_ title: String) -> URL { drafts.appendingPathComponent(title).appendingPathExtension("txt") }
  func picture(_ title: String) -> URL { notes.appendingPathComponent(title).appendingPathExtension("png") }

  // MARK: Writing

  func save(_ text: String, as title: String) throws {
    try Data(text.utf8).write(to: note(title), options: .completeFileProtection)
  }

  /// Drafts are also saved while the device is locked.
  func saveDraft(_ text: String, as title: String) throws {
    try Data(text.utf8).write(to: draft(title), options: [.atomic, .completeFileProtectionUnlessOpen])
  }

  func savePicture(_ data: Data, as title: String) -> Bool {
    FileManager.default.createFile(
      atPath: picture(title).path, contents: data, attributes: [.protectionKey: FileProtectionType.complete])
  }

  /// Settings are needed as soon as the device has started.
  func saveSettings(_ values: [String: String]) throws {
    let data = try JSONEncoder().encode(values)
    try data.write(to: settings, options: [.atomic, .completeFileProtectionUntilFirstUserAuthentication])
  }

  // MARK: Reading

  func text(of title: String) throws -> String { try String(contentsOf: note(title), encoding: .utf8) }

  func draftText(of title: String) throws -> String {
    String(decoding: try Data(contentsOf: draft(title)), as: UTF8.self)
  }

  func settingsValues() throws -> [String: String] {
    try JSONDecoder().decode([String: String].self, from: Data(contentsOf: settings))
  }

  func titles() throws -> [String] {
    try FileManager.default.contentsOfDirectory(at: notes, includingPropertiesForKeys: nil)
      .filter { $0.pathExtension == "txt" }
      .map { $0.deletingPathExtension().lastPathComponent }
      .sorted()
  }

  // MARK: Protection

  /// Puts all files of the app into one class: Apple's "Encrypting Your App's Files", for files that are there.
  func protectAll(_ protection: FileProtectionType) throws {
    guard let files = FileManager.default.enumerator(at: directory, includingPropertiesForKeys: nil) else { return }
    for case let file as URL in files {
      try FileManager.default.setAttributes([.protectionKey: protection], ofItemAtPath: file.path)
    }
  }

  /// The class of a file, asked for in both ways that there are.
  func protection(of file: URL) throws -> (attribute: FileProtectionType?, resourceValue: URLFileProtection?) {
    let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
    let values = try file.resourceValues(forKeys: [.fileProtectionKey])
    return (attributes[.protectionKey] as? FileProtectionType, values.fileProtection)
  }
}
