import ProtectfsLibc
import Synchronization
import SystemPackage

/// Visits everything below a directory, without following symbolic links or, as a rule, leaving the file
/// system. What is removed meanwhile is no failure; what gets another name in its directory is visited.
package final class DirectoryTree: Sendable {
  /// Called for each file and directory with two paths: one that leads to the very item that was found, and one to show
  /// to users.
  package typealias Body = @Sendable (PathName, String) throws(Errno) -> Void
  /// Called with the result for each item; `nil` stands for success. Called from several threads.
  package typealias Report = @Sendable (String, Errno?) -> Void

  private let report: Report
  private let body: Body
  private let isCancelled: @Sendable () -> Bool
  private let isSorted: Bool
  /// The file system that is not left; `nil` if it may be.
  private let device: UInt64?
  /// How many more threads may help with directories of many entries.
  private let helpers: Atomic<Int>

  private init(
    threads: Int, isSorted: Bool, device: UInt64?, _ isCancelled: @escaping @Sendable () -> Bool,
    _ report: @escaping Report, _ body: @escaping Body
  ) {
    self.report = report
    self.isCancelled = isCancelled
    self.isSorted = isSorted
    self.device = device
    self.body = body
    helpers = Atomic(threads - 1)
  }

  /// Calls `body` with each file and directory below a path. With several threads the order is not defined. A failure
  /// is reported, and the remaining items are still visited. The path itself is reported if it cannot be opened; if it
  /// is not a directory, nothing is visited. Once `isCancelled` returns `true`, nothing more is visited.
  ///
  /// - Parameters:
  ///   - isSorted: whether the names of a directory are visited in order.
  ///   - entersMounts: whether what is mounted below the path is visited too.
  package static func visit(
    _ path: String, threads: Int = 1, isSorted: Bool = false, entersMounts: Bool = false,
    isCancelled: @escaping @Sendable () -> Bool = { false }, report: @escaping Report, _ body: @escaping Body
  ) {
    do throws(Errno) {
      guard try Descriptor.open(PathName(path), [.path]).status().type == .directory else { return }
      let root = SharedDescriptor(try Descriptor.open(PathName(path), [.readOnly, .directory, .noFollow]))
      let device = try root.descriptor.status().device
      let tree = DirectoryTree(
        threads: threads, isSorted: isSorted, device: entersMounts ? nil : device, isCancelled, report, body)
      var walk = Walk()
      tree.enter(try Directory(PathName(path), root, (), in: nil), root, &walk)
      tree.go(on: &walk)
    } catch {
      report(path, error)
    }
  }

  private typealias Directory = NestedDirectory<SharedDescriptor, Void>

  /// What one thread visits.
  private struct Walk {
    var descent = TreeDescent<SharedDescriptor, Void>()
    /// For each directory on the way: the names that were found in it, whether one of them is gone since, and the
    /// thread that visits half of them.
    var levels: [(found: [PathName], hasVanished: Bool, helper: Thread?)] = []

    mutating func enter(
      _ directory: Directory, _ opened: SharedDescriptor, _ names: ArraySlice<PathName>, of found: [PathName],
      with helper: Thread? = nil
    ) {
      descent.enter(directory, opened, names)
      levels.append((found, false, helper))
    }

    mutating func noteVanished() { levels[levels.count - 1].hasVanished = true }

    /// If a name is gone from the deepest directory, the names that have come there, one of which may be its new one.
    /// Returns `nil` if there is nothing more to visit. Names that go after that are not looked for.
    mutating func newNames() throws(Errno) -> Set<PathName>? {
      let level = levels.count - 1
      guard levels[level].hasVanished, !levels[level].found.isEmpty else { return nil }
      let found = exchange(&levels[level].found, with: [])
      return try Set(descent.item().descriptor.names()).subtracting(found)
    }
  }

  /// The number of entries from which a thread for half of them is worth its cost.
  private static let many = 64

  private func enter(_ directory: Directory, _ opened: SharedDescriptor, _ walk: inout Walk) {
    var names: [PathName]
    do throws(Errno) {
      names = try opened.descriptor.names()
    } catch {
      if error != .noSuchFileOrDirectory { report(directory.path, error) }
      return
    }
    if isSorted { names.sort { $0.bytes.lexicographicallyPrecedes($1.bytes) } }
    guard names.count >= Self.many, helpers.wrappingSubtract(1, ordering: .relaxed).newValue >= 0 else {
      if names.count >= Self.many { helpers.wrappingAdd(1, ordering: .relaxed) }
      return walk.enter(directory, opened, names[...], of: names)
    }
    let rest = names[(names.count / 2)...]
    let helper = try? Thread(starting: "tree") { [self, names] in
      var walk = Walk()
      walk.enter(directory, opened, rest, of: names)
      go(on: &walk)
    }
    if helper == nil { helpers.wrappingAdd(1, ordering: .relaxed) }
    let own = helper == nil ? names[...] : names[..<rest.startIndex]
    walk.enter(directory, opened, own, of: names, with: helper)
  }

  private func go(on walk: inout Walk) {
    while let directory = walk.descent.directory {
      if !isCancelled(), let name = walk.descent.nextName() {
        visit(name, in: directory, &walk)
      } else if !isCancelled(), let names = newNames(in: directory, &walk) {
        walk.descent.add(names)
      } else {
        walk.descent.leave()
        guard let helper = walk.levels.removeLast().helper else { continue }
        helper.join()
        helpers.wrappingAdd(1, ordering: .relaxed)
      }
    }
  }

  private func newNames(in directory: Directory, _ walk: inout Walk) -> Set<PathName>? {
    do throws(Errno) {
      return try walk.newNames()
    } catch {
      if error != .noSuchFileOrDirectory { report(directory.path, error) }
      return nil
    }
  }

  private func visit(_ name: PathName, in directory: Directory, _ walk: inout Walk) {
    let path = directory.path(of: name).description
    let parent: SharedDescriptor
    do throws(Errno) { parent = try walk.descent.item() } catch { return report(path, error) }
    do throws(Errno) {
      // Opened without access: this needs no key, and `body` changes the very item that was examined.
      let item = SharedDescriptor(try parent.descriptor.open(name, [.path, .noFollow]))
      let status = try item.descriptor.status()
      guard !isOutside(status), status.type == .regular || status.type == .directory else { return }
      let failure = failure { () throws(Errno) in try body(PathName(descriptor: item.descriptor), path) }
      if failure != nil, try item.descriptor.status().links == 0 { return }
      report(path, failure)
      guard status.type == .directory else { return }
      enter(try Directory(name, item, (), in: directory), item, &walk)
    } catch .noSuchFileOrDirectory {
      walk.noteVanished()
    } catch {
      report(path, error)
    }
  }

  private func isOutside(_ status: Status) -> Bool { device.map(status.isOutside) ?? false }

  private func failure(_ body: () throws(Errno) -> Void) -> Errno? {
    do throws(Errno) {
      try body()
      return nil
    } catch {
      return error
    }
  }
}
