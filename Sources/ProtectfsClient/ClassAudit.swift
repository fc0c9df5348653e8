import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A file or directory whose class is not the expected one.
public struct ProtectionFinding: Sendable, Hashable {
  /// How the class differs.
  @nonexhaustive
  public enum Kind: String, Sendable, Codable, CaseIterable {
    /// The item is not on a protectfs mount. Whatever is in it is plaintext.
    case notProtected
    /// The item can be used in a lock state in which the expected class is locked.
    case weaker
    /// The class is another, but protects as much or more.
    case different
  }

  /// The path of the item.
  public let path: String
  /// Its class; for a directory, the class of what is created in it. `nil` if it is not on a mount.
  public let protectionClass: ProtectionClass?
  /// The class that was expected.
  public let expected: ProtectionClass

  /// How the class differs.
  public var kind: Kind {
    guard let protectionClass else { return .notProtected }
    return ProtectionPolicy.isRaise(from: protectionClass, to: expected) ? .weaker : .different
  }
}

/// Compares the classes of a tree with an expected one.
package struct ClassAudit: Sendable {
  private let expected: ProtectionClass
  private let devices: ProtectedDevices
  private let found: @Sendable (ProtectionFinding) -> Void

  /// - Parameter found: called with each finding, from several threads.
  package init(
    expecting expected: ProtectionClass, found: @escaping @Sendable (ProtectionFinding) -> Void
  ) throws(Errno) {
    self.expected = expected
    self.found = found
    devices = try ProtectedDevices()
  }

  /// Examines a file or directory. A symbolic link is followed.
  package func examine(_ path: String) throws(Errno) {
    try examine(PathName(path), path)
  }

  /// Examines the files and directories below a path, also those on what is mounted there. Symbolic links are not
  /// followed. Works in every lock state.
  ///
  /// - Parameter report: called with each item, and the error if it could not be examined.
  package func visit(
    below path: String, threads: Int = 1, isCancelled: @escaping @Sendable () -> Bool = { false },
    report: @escaping DirectoryTree.Report
  ) {
    DirectoryTree.visit(
      path, threads: threads, entersMounts: true, isCancelled: isCancelled, report: report
    ) { (item, path) throws(Errno) in try examine(item, path) }
  }

  private func examine(_ item: PathName, _ path: String) throws(Errno) {
    let isProtected = devices.contains(try Descriptor.open(item, [.path]).status())
    let protectionClass = isProtected ? try Self.protectionClass(of: item) : nil
    guard protectionClass != expected else { return }
    found(ProtectionFinding(path: path, protectionClass: protectionClass, expected: expected))
  }

  private static func protectionClass(of item: PathName) throws(Errno) -> ProtectionClass {
    let name = String(decoding: try item.attribute(PathName(ProtectionClass.attributeName)), as: UTF8.self)
    guard let protectionClass = ProtectionClass(name: name) else { throw .ioError }
    return protectionClass
  }
}
