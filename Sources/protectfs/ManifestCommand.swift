import ArgumentParser
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import TreeCopy

/// `protectfs manifest`
struct ManifestCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "manifest",
    abstract: "List files, their classes, and their encrypted extended attributes.",
    discussion: """
      Lists what is in and below a directory: the class of each file and directory, whether the class is explicit (*) \
      or inherited, and the names of its extended attributes, those that are not encrypted in parentheses. Values are \
      not shown. Works while locked. Symbolic links are not followed.

      'protectfs class set --from' applies the classes of a manifest, to the same tree or to a copy of it.

      Examples:
        protectfs manifest ~/private
        protectfs manifest --json ~/private > manifest.json
      """)

  @Argument(help: ArgumentHelp("A directory on a mount.", valueName: "directory"), completion: .directory)
  var directory: String

  @Flag(help: "Report in JSON, as one document.")
  var json = false

  func run() throws {
    guard try MountedFileSystem.containing(directory) != nil else {
      throw CommandFailure(.notMounted, "\(directory.printable) is not on a protectfs mount")
    }
    let root = try CanonicalPath.of(directory)
    let failures = FailureCount()
    let progress = TreeProgress("listed", of: [root], isShown: !StandardStream.isOutputTerminal)
    defer { progress.end() }
    let output = ManifestOutput(root, isJSON: json)
    output.begin()
    failures.attempt(root) { () throws(Errno) in
      try output.show(PathName(root), ".")
    }
    DirectoryTree.visit(root, isSorted: true, report: progress.report(to: failures)) { (item, path) throws(Errno) in
      try output.show(item, String(decoding: path.utf8.dropFirst(root.utf8.count + 1), as: UTF8.self))
    }
    output.end()
    try failures.finish(of: "looked at")
  }
}

/// Prints a manifest as it grows, since a tree may have more files than memory has room for.
private final class ManifestOutput: Sendable {
  private let directory: String
  private let isJSON: Bool
  private let count = Atomic(0)

  init(_ directory: String, isJSON: Bool) {
    self.directory = directory
    self.isJSON = isJSON
  }

  func begin() {
    guard isJSON else { return }
    let name = (try? JSONOutput.line(directory)) ?? "\"\""
    print("{\"version\":\(Manifest.version),\"directory\":\(name),\"items\":[", terminator: "")
  }

  /// - Throws: `EILSEQ` for a name that is no UTF-8: as text it would be another's.
  func show(_ item: PathName, _ path: String) throws(Errno) {
    if isJSON, path.unicodeScalars.contains("\u{FFFD}") { throw Errno.illegalByteSequence }
    let isDirectory = try Descriptor.open(item, [.path]).status().type == .directory
    let entry = try Manifest.Item(path, at: item, isDirectory: isDirectory)
    if isJSON {
      guard let line = try? JSONOutput.line(entry) else { throw .invalidArgument }
      print(count.wrappingAdd(1, ordering: .relaxed).oldValue == 0 ? "\n" : ",\n", line, separator: "", terminator: "")
    } else {
      let fields = entry.fields.map { $0.isEncrypted ? $0.name.printable : "(\($0.name.printable))" }
      let name = "\(entry.protectionClass.letter)\(entry.isExplicit ? "*" : "")".padded(to: 3)
      print(([name, entry.path.printable + (isDirectory ? "/" : "")] + fields).joined(separator: "  "))
    }
  }

  func end() {
    if isJSON { print("\n]}") }
    StandardStream.flush()
  }
}
