import ArgumentParser
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import TreeCopy

/// `protectfs class`
struct ClassCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "class",
    abstract: "Show or set the protection class of files and directories.",
    subcommands: [ClassGetCommand.self, ClassSetCommand.self])
}

/// `protectfs class get`
struct ClassGetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "get",
    abstract: "Show the class of files and directories.",
    discussion: """
      Of one path it prints the class alone, of several a line each: the class, a tab (blanks on a terminal) and the path.

      With --expect, it prints only what has another class, and then ends with status 28. What is not on a mount \
      is printed with the class 'unprotected', and -R also enters what is mounted below. In JSON, 'finding' is weaker \
      if the file can be used while the expected class is locked, notProtected if it is not on a mount, else different.

      Examples:
        protectfs class get ~/private/diary
        protectfs class get -R ~/private
        protectfs class get -R --expect A ~/private/letters
      """)

  @Argument(help: .init("Files or directories on a mount.", valueName: "path"), completion: .file())
  var paths: [String]

  @Flag(
    name: [.customShort("R"), .long],
    help: "Also of everything below, after failures too; symbolic links are not followed.")
  var recursive = false

  @Option(help: .init("Show only what is not of this class.", valueName: "class"))
  var expect: ProtectionClass?

  @Flag(help: "Report in JSON, one object a line.")
  var json = false

  func run() throws {
    if let expect { return try audit(expect) }
    let failures = FailureCount()
    let progress = TreeProgress("listed", of: paths, isShown: recursive && !StandardStream.isOutputTerminal)
    defer { progress.end() }
    for path in paths {
      failures.attempt(path) { () throws(Errno) in
        let fileClass = try ProtectionClass(ofItemAt: path)
        show(path, fileClass)
      }
      guard recursive else { continue }
      DirectoryTree.visit(path, report: progress.report(to: failures)) { (item, path) throws(Errno) in
        let value = try item.attribute(PathName(ProtectionClass.attributeName))
        guard let fileClass = ProtectionClass(name: String(decoding: value, as: UTF8.self)) else { throw .ioError }
        show(path, fileClass)
      }
    }
    try failures.finish(of: "read")
  }

  private func audit(_ expected: ProtectionClass) throws {
    let failures = FailureCount()
    let findings = Atomic(0)
    let progress = TreeProgress("examined", of: paths, isShown: recursive && !StandardStream.isOutputTerminal)
    defer { progress.end() }
    let audit: ClassAudit
    do throws(Errno) {
      audit = try ClassAudit(expecting: expected) { [self] finding in
        findings.add(1, ordering: .relaxed)
        show(finding)
      }
    } catch {
      throw CommandFailure("/proc/self/mountinfo", error)
    }
    for path in paths {
      let failed = failures.failed
      failures.attempt(path) { () throws(Errno) in try audit.examine(path) }
      if recursive, failures.failed == failed { audit.visit(below: path, report: progress.report(to: failures)) }
    }
    try failures.finish(of: "examined")
    let count = findings.load(ordering: .relaxed)
    guard count > 0 else { return }
    throw CommandFailure(.unexpectedClass, "\(count) of \(failures.total) are not of class \(expected.name)")
  }

  private func show(_ finding: ProtectionFinding) {
    guard json else { return print(Self.line(finding.protectionClass?.name ?? "unprotected", finding.path)) }
    var members = ["path": finding.path, "finding": finding.kind.rawValue, "expected": finding.expected.name]
    members["class"] = finding.protectionClass?.name
    try? JSONOutput.showLine(members)
  }

  private func show(_ path: String, _ fileClass: ProtectionClass) {
    if json {
      try? JSONOutput.showLine(["path": path, "class": fileClass.name])
    } else if paths.count == 1 && !recursive {
      print(fileClass.name)
    } else {
      print(Self.line(fileClass.name, path))
    }
  }

  /// Aligned for people, with a tab for programs.
  private static func line(_ className: String, _ path: String) -> String {
    guard StandardStream.isOutputTerminal else { return "\(className)\t\(path)" }
    let longest = ProtectionClass.allCases.map(\.name.count).max() ?? 0
    return "\(className.padded(to: longest))  \(path.printable)"
  }
}

/// `protectfs class set`
struct ClassSetCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "set",
    abstract: "Set the class of files and directories.",
    discussion: """
      Wraps the file's key under the key of the new class, for which the old and the new class must be usable now. \
      Where the new class protects more (a raise: C to A, say), so that the file could be opened before in a state in \
      which it no longer can, the file gets a new key, and its contents are encrypted under that, in place and while \
      the file is in use; the command waits for it. With --rewrap the file keeps its key and contents: an older record \
      of the file, from a backup or the journal of a file system, then still opens it.

      The class of a directory is that of what is created in it later; -R changes what is in it too.

      Classes: complete (A), completeUnlessOpen (B), completeUntilFirstUserAuthentication (C), none (D), \
      completeWhenUserInactive (CX).

      With --from, every file and directory of a manifest gets the class that it has there, explicit or inherited as \
      there. What has that class already is left alone, also while it is locked.

      Examples:
        protectfs class set complete ~/private/diary
        protectfs class set -R A ~/private/letters
        protectfs class set --from manifest.json
      """)

  @Argument(help: .init("A name, a letter or an NSFileProtection constant.", valueName: "class"))
  var protectionClass: ProtectionClass?

  @Argument(help: .init("Files or directories on a mount.", valueName: "path"), completion: .file())
  var paths: [String] = []

  @Flag(
    name: [.customShort("R"), .long],
    help: "Also of everything below, after failures too; symbolic links are not followed.")
  var recursive = false

  @Option(
    help: .init(
      "Set the classes that 'protectfs manifest --json' has printed; in place of a class and paths.",
      valueName: "manifest"),
    completion: .file())
  var from: String?

  @Option(
    help: .init(
      "With --from: the directory to set them in, if it is not the one that the manifest was made of.",
      valueName: "directory"),
    completion: .directory)
  var directory: String?

  @Flag(help: "Do not wait until files with a new key are encrypted under it.")
  var noWait = false

  @Flag(help: "Leave files the keys that they have, also where the class protects more.")
  var rewrap = false

  func validate() throws {
    if from != nil {
      guard !rewrap else { throw ValidationError("--rewrap does not go with --from.") }
      guard protectionClass == nil, !recursive else {
        throw ValidationError(
          "With --from the manifest says which classes and files; give --directory for another tree.")
      }
    } else {
      guard protectionClass != nil, !paths.isEmpty else {
        throw ValidationError("Give a class and at least one path, or --from a manifest.")
      }
      guard directory == nil else { throw ValidationError("--directory goes with --from.") }
    }
  }

  func run() throws {
    if let from {
      let manifest: Manifest
      do throws(ManifestError) { manifest = try Manifest(file: from) } catch { throw CommandFailure(from, error) }
      return try apply(manifest)
    }
    if let protectionClass { try set(protectionClass) }
  }

  private func apply(_ manifest: Manifest) throws {
    let failures = FailureCount()
    let progress = TreeProgress("files and directories looked at") { [count = manifest.items.count] _ in count }
    let directory = directory ?? manifest.directory
    let classes: ManifestClasses
    do throws(Errno) { classes = try ManifestClasses(directory) } catch {
      throw CommandFailure(directory.printable, error)
    }
    let changed = classes.apply(manifest, report: progress.report(to: failures))
    progress.finish(failures.total)
    if !noWait { try RekeyWait().finish([directory]) }
    print("\(changed) of \(failures.total) files and directories had another class.")
    try failures.finish(of: "changed")
  }

  private func set(_ protectionClass: ProtectionClass) throws {
    let failures = FailureCount()
    let progress = TreeProgress("looked at", of: paths, isShown: recursive)
    let attribute = rewrap ? ProtectionClass.rewrapAttributeName : ProtectionClass.attributeName
    let value = Array(protectionClass.name.utf8)
    for path in paths {
      failures.attempt(path) { () throws(Errno) in
        if rewrap {
          try protectionClass.rewrap(itemAt: path)
        } else {
          try protectionClass.assign(toItemAt: path)
        }
      }
      guard recursive else { continue }
      DirectoryTree.visit(path, threads: 2, report: progress.report(to: failures)) { (item, _) throws(Errno) in
        try item.setAttribute(PathName(attribute), to: value)
      }
    }
    progress.finish(failures.total)
    if !noWait { try RekeyWait().finish(paths) }
    try failures.finish(of: "changed")
  }
}
