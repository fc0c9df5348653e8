import ArgumentParser
import ProtectfsClient
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import TreeCopy

/// `protectfs orphans`
struct OrphansCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "orphans",
    abstract: "List or remove files whose class key is no more.",
    discussion: """
      After a class key was erased, reset or rotated away, the files under it stay in their places and answer \
      EKEYREVOKED, whether the mount is locked or not. 'protectfs restore' brings them back from a copy. Files that \
      answer ENOKEY are no orphans: another keybag opens them.
      """,
    subcommands: [OrphansListCommand.self, OrphansPurgeCommand.self])

  /// Looks for orphans at a path, and shows on a terminal how far that has come. Nothing is printed while the line is
  /// there.
  static func search(
    _ path: String, _ report: @escaping (String, Errno?) -> Void, _ found: @escaping (Orphan) -> Void
  ) throws -> OrphanSearch {
    let progress = TreeProgress("looked at", of: [path])
    let looked = Atomic(0)
    let search = OrphanSearch(
      report: { path, error in
        if error != nil { progress.clear() }
        report(path, error)
        progress.show(looked.wrappingAdd(1, ordering: .relaxed).newValue)
      },
      { orphan in
        progress.clear()
        found(orphan)
      })
    defer { progress.end() }
    search.look(at: try CanonicalPath.ofLink(path))
    return search
  }

  /// Refuses a path that is on no mount of protectfs, where nothing is an orphan.
  static func requireMount(_ path: String) throws {
    guard try MountedFileSystem.containing(path) != nil else {
      throw CommandFailure(.notMounted, "\(path.printable) is not on a protectfs mount")
    }
  }
}

/// `protectfs orphans list`
struct OrphansListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list",
    abstract: "List files whose class key is no more.",
    discussion: """
      Looks at every file in and below the path, and prints a path a line. Each file is opened for a moment and not \
      read. Files that this user may not open, or that are locked, are counted on standard error. The exit status is 0 \
      whether there are orphans or not.

      Examples:
        protectfs orphans list ~/private
        protectfs orphans list -0 ~/private | xargs -0 ls -l
      """)

  @Argument(help: ArgumentHelp("A file or directory on a mount.", valueName: "path"), completion: .file())
  var path: String

  @Flag(help: "Report in JSON, one object a line.")
  var json = false

  @Flag(
    name: [.customShort("0"), .customLong("null")],
    help: "End each path with a NUL, and print it as it is; not with --json.")
  var endsWithNull = false

  private struct Entry: Encodable {
    var path: String
    var protectionClass: String
    var size: UInt64

    enum CodingKeys: String, CodingKey {
      case path, size
      case protectionClass = "class"
    }
  }

  func validate() throws {
    guard !json || !endsWithNull else { throw ValidationError("Give --json or -0, not both.") }
  }

  func run() throws {
    try OrphansCommand.requireMount(path)
    let failures = FailureCount()
    var (count, size): (Int, UInt64) = (0, 0)
    let search = try OrphansCommand.search(path, failures.count) { orphan in
      count += 1
      size += orphan.identity.size
      show(orphan)
    }
    StandardStream.flush()
    search.tellOthers()
    if StandardStream.isErrorTerminal {
      StandardStream.writeError("\(count) of \(search.looked.files) cannot be opened any more (\(size.bytes))\n")
    }
    try failures.finish(of: "looked at")
  }

  private func show(_ orphan: Orphan) {
    if endsWithNull {
      // A pipe that is closed ends the process.
      unsafe orphan.path.terminated.withUnsafeBytes { unsafe try? StandardStream.writeOutput($0) }
    } else if json {
      let path = PathName(descriptor: orphan.directory.descriptor).appending(orphan.name)
      let fileClass = (try? path.attribute(FileClass.attribute)).map { String(decoding: $0, as: UTF8.self) }
      try? JSONOutput.showLine(
        Entry(path: orphan.path.description, protectionClass: fileClass ?? "", size: orphan.identity.size))
    } else {
      print(orphan.path.description.printable)
    }
  }
}

/// `protectfs orphans purge`
struct OrphansPurgeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "purge",
    abstract: "Remove files whose class key is no more.",
    discussion: """
      Looks for them as 'protectfs orphans list' does, says how many they are, and asks. Each is looked at again right \
      before it is removed, so that what was restored meanwhile stays. Once they are removed nothing brings them back, \
      an old keybag neither.

      Examples:
        protectfs orphans purge ~/private
        protectfs orphans purge --yes ~/private/cache
      """)

  @Argument(help: ArgumentHelp("A file or directory on a mount.", valueName: "path"), completion: .file())
  var path: String

  @OptionGroup var confirmation: Confirmation

  func run() throws {
    try OrphansCommand.requireMount(path)
    let failures = FailureCount()
    var orphans: [PathName: Orphan.Identity] = [:]
    try OrphansCommand.search(path, failures.count) { orphans[$0.path] = $0.identity }.tellOthers()
    guard !orphans.isEmpty else {
      try failures.finish(of: "looked at")
      return print("There are none.")
    }
    // Several names may be one file.
    let size = Set(orphans.values).reduce(0) { $0 + $1.size }
    try confirmation.require(
      "\(orphans.count.files) in \(path.printable) (\(size.bytes)) will be removed for good.")
    let removed = try remove(orphans, failures)
    print("\(removed.files) removed.")
    try failures.finish(of: "removed")
  }

  /// Searches again, and removes what is found and was found before.
  private func remove(_ orphans: [PathName: Orphan.Identity], _ failures: FailureCount) throws -> Int {
    let progress = ProgressLine()
    var removed = 0
    // What cannot be looked at was told before.
    _ = try OrphansCommand.search(path, { (_, _) in }) { orphan in
      guard orphans[orphan.path] == orphan.identity else { return }
      failures.attempt(orphan.path.description) { () throws(Errno) in
        // Somebody may have put another file there in the moment since it was tried.
        guard try orphan.directory.descriptor.status(of: orphan.name).inode == orphan.identity.inode else { return }
        try orphan.directory.descriptor.unlink(orphan.name)
        removed += 1
        progress.show("\(removed) of \(orphans.count.files) removed")
      }
    }
    progress.clear()
    return removed
  }
}

extension OrphanSearch {
  /// Says what could not be looked at, and what is not shown.
  fileprivate func tellOthers() {
    if refused > 0 {
      CommandFailure.report("\(refused.files) could not be looked at: locked, or not this user's to open")
    }
    if underOtherKeybags > 0 {
      CommandFailure.report(
        "\(underOtherKeybags.files) under class keys that the keybag does not have: no orphans, since another keybag opens "
          + "them ('protectfs keybag restore', 'protectfs keybag import')")
    }
  }
}
