import Foundation
import Testing

@testable import ProtectfsLint

/// The modules of the directory Fixture, compiled in a directory of their own with an index.
final class Fixture {
  private let directory: URL
  let files: Set<String>

  init() throws {
    let manager = FileManager.default
    directory = manager.temporaryDirectory.appending(path: "protectfs-lint-\(UUID().uuidString)")
    let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Fixture")
    try manager.createDirectory(at: directory, withIntermediateDirectories: false)
    try manager.copyItem(at: sources, to: directory.appending(path: "Sources"))
    var files: Set<String> = []
    for module in ["DataProtection", "DataProtectionKit", "Storage", "App"] {
      let paths = try manager.contentsOfDirectory(
        at: directory.appending(path: "Sources/\(module)"), includingPropertiesForKeys: nil
      ).map(\.path)
      try Self.compile(module, paths, in: directory)
      if module != "DataProtection" { files.formUnion(paths) }
    }
    self.files = files
  }

  deinit { try? FileManager.default.removeItem(at: directory) }

  var indexStore: String { directory.appending(path: "index").path }

  func path(_ name: String) -> String { directory.appending(path: "Sources/\(name)").path }

  func lint(_ lint: (_ files: Set<String>) -> Lint = { Lint(checked: $0) }) throws -> LintReport {
    try lint(files).run(indexStore: indexStore, library: Self.library())
  }

  /// What the marks at the ends of lines say.
  func marks() throws -> Set<Mark> {
    var marks: Set<Mark> = []
    for path in files {
      let text = try String(contentsOfFile: path, encoding: .utf8)
      for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
        guard let mark = try /\/\/ (may )?loses?: (\w+)$/.firstMatch(in: line) else { continue }
        let kind = try #require(Finding.Kind(rawValue: String(mark.2)))
        let name = URL(fileURLWithPath: path).lastPathComponent
        marks.insert(Mark(file: name, line: index + 1, kind: kind, isCertain: mark.1 == nil))
      }
    }
    return marks
  }

  struct Mark: Hashable, CustomStringConvertible {
    let file: String
    let line: Int
    let kind: Finding.Kind
    let isCertain: Bool

    var description: String { "\(file):\(line) \(isCertain ? "loses" : "may lose"): \(kind)" }
  }

  private static func compile(_ module: String, _ files: [String], in directory: URL) throws {
    let output = try run(
      "swiftc",
      [
        "-swift-version", "6", "-parse-as-library", "-module-name", module, "-emit-module", "-I", ".",
        "-index-store-path", "index", "-c",
      ] + files, in: directory)
    try #require(output.status == 0, "\(output.text)")
  }

  /// The libIndexStore of the toolchain that is used.
  static func library() throws -> String {
    let swiftc = try run("sh", ["-c", "command -v swiftc"], in: FileManager.default.temporaryDirectory).text
    let path = URL(fileURLWithPath: swiftc.trimmingCharacters(in: .newlines)).resolvingSymlinksInPath()
    return path.deletingLastPathComponent().appending(path: "../lib/libIndexStore.so").standardized.path
  }

  private static func run(_ program: String, _ arguments: [String], in directory: URL) throws -> (
    status: Int32, text: String
  ) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [program] + arguments
    process.currentDirectoryURL = directory
    let pipe = Pipe()
    (process.standardOutput, process.standardError) = (pipe, pipe)
    try process.run()
    let text = try pipe.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: text, as: UTF8.self))
  }
}
