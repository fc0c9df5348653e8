import ProtectfsIO
import SystemPackage

/// How much there is in a tree.
package struct TreeTotal: Sendable {
  /// Names of whatever there is.
  package private(set) var entries = 0
  package private(set) var directories = 0
  package private(set) var files = 0
  /// The sum of their lengths.
  package private(set) var bytes: UInt64 = 0

  /// Nothing.
  package init() {}

  /// Counts what is in a directory; what cannot be looked at is left out.
  ///
  /// - Parameter names: those in the directory itself that do not count.
  package init(of directory: any SourceItem, without names: Set<PathName> = [], while isWanted: () -> Bool) {
    var descent = TreeDescent<Sides, Void>()
    let root = Sides(source: directory, target: nil)
    let listed = ((try? directory.names())?.usable ?? []).filter { !names.contains($0) }
    descent.enter(NestedDirectory(".", root, (), in: nil, open: { $0 }), root, listed)
    while let parent = descent.directory, isWanted() {
      guard let name = descent.nextName() else {
        descent.leave()
        continue
      }
      entries += 1
      guard let item = try? descent.item().source.item(name), let status = try? item.status() else { continue }
      switch status.type {
      case .directory:
        directories += 1
        guard let names = try? item.names().usable else { continue }
        let below = Sides(source: item, target: nil)
        descent.enter(NestedDirectory(name, below, (), in: parent, open: below.opener(name, status)), below, names)
      case .regular:
        files += 1
        bytes += status.size
      default: break
      }
    }
  }

  /// What a file costs beside its contents, as so many bytes.
  private static let bytesPerFile: Double = 50_000

  /// How long the rest takes, going by how long the first part took; `nil` as long as that is a guess.
  package func timeLeft(after files: Int, _ bytes: UInt64, in time: Duration) -> Duration? {
    guard time > .seconds(1), files > 0 else { return nil }
    let done = Double(bytes) + Double(files) * Self.bytesPerFile
    let all = Double(self.bytes) + Double(self.files) * Self.bytesPerFile
    return time * (max(0, all - done) / done)
  }
}
