import Glibc
import Synchronization
import SystemPackage

/// Visits everything below a directory, without following symbolic links or leaving the file system.
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
  /// How many more threads may help with directories of many entries.
  private let helpers: Atomic<Int>

  private init(
    threads: Int, isSorted: Bool, _ isCancelled: @escaping @Sendable () -> Bool, _ report: @escaping Report,
    _ body: @escaping Body
  ) {
    self.report = report
    self.isCancelled = isCancelled
    self.isSorted = isSorted
    self.body = body
    helpers = Atomic(threads - 1)
  }

  /// Calls `body` with each file and directory below a path. With several threads the order is not defined. A failure
  /// is reported, and the remaining items are still visited. The path itself is reported if it cannot be opened; if it
  /// is not a directory, nothing is visited. Once `isCancelled` returns `true`, nothing more is visited.
  ///
  /// - Parameter isSorted: whether the names of a directory are visited in order.
  package static func visit(
    _ path: String, threads: Int = 1, isSorted: Bool = false, isCancelled: @escaping @Sendable () -> Bool = { false },
    report: @escaping Report, _ body: @escaping Body
  ) {
    do throws(Errno) {
      guard try Descriptor.open(PathName(path), [.path]).status().type == .directory else { return }
      let root = try Descriptor.open(PathName(path), [.readOnly, .directory, .noFollow])
      let device = try root.status().device
      DirectoryTree(threads: threads, isSorted: isSorted, isCancelled, report, body).visit(
        SharedDescriptor(root), path, device)
    } catch {
      report(path, error)
    }
  }

  private func visit(_ directory: SharedDescriptor, _ path: String, _ device: UInt64) {
    do throws(Errno) {
      var names = try DirectoryNames(try directory.descriptor.open(".", [.readOnly, .directory])).all(limit: .max)
      if isSorted { names.sort { $0.bytes.lexicographicallyPrecedes($1.bytes) } }
      visit(names[...], in: directory, path, device)
    } catch {
      report(path, error)
    }
  }

  /// The number of entries from which a thread for half of them is worth its cost.
  private static let many = 64

  private func visit(_ names: ArraySlice<PathName>, in directory: SharedDescriptor, _ path: String, _ device: UInt64) {
    guard names.count >= Self.many, helpers.wrappingSubtract(1, ordering: .relaxed).newValue >= 0 else {
      if names.count >= Self.many { helpers.wrappingAdd(1, ordering: .relaxed) }
      for name in names { visit(name, in: directory, path, device) }
      return
    }
    let middle = names.startIndex + names.count / 2
    let rest = names[middle...]
    let helper = Thread(name: "tree") { [self] in
      visit(rest, in: directory, path, device)
    }
    visit(names[..<middle], in: directory, path, device)
    helper.join()
    helpers.wrappingAdd(1, ordering: .relaxed)
  }

  private func visit(_ name: PathName, in directory: SharedDescriptor, _ path: String, _ device: UInt64) {
    if isCancelled() { return }
    let itemPath = "\(path)/\(name)"
    do throws(Errno) {
      // Opened without access: this needs no key, and `body` changes the very item that was examined.
      let item = try directory.descriptor.open(name, [.path, .noFollow])
      let status = try item.status()
      guard status.device == device, status.type == .regular || status.type == .directory else { return }
      report(itemPath, failure { () throws(Errno) in try body(PathName(descriptor: item), itemPath) })
      guard status.type == .directory else { return }
      visit(
        SharedDescriptor(try directory.descriptor.open(name, [.readOnly, .directory, .noFollow])), itemPath, device)
    } catch {
      report(itemPath, error)
    }
  }

  private func failure(_ body: () throws(Errno) -> Void) -> Errno? {
    do throws(Errno) {
      try body()
      return nil
    } catch {
      return error
    }
  }
}
