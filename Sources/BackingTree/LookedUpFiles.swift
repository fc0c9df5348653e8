import ProtectfsIO
import SystemPackage

/// Files that the kernel has just looked up in a store that another mount writes, by descriptors (`O_PATH`): one that
/// is replaced before it is opened is opened all the same, as on any file system.
///
/// They are held for a moment only: a file that is removed keeps its room meanwhile.
package final class LookedUpFiles: Sendable {
  private struct Held {
    let node: Node
    let file: SharedDescriptor
    let end: ContinuousClock.Instant
  }

  private struct Signal {
    /// The first file came since the thread has found none.
    var hasFiles = false
    var isStopped = false
  }

  private static let most = 128

  /// In the order of their ends.
  private let files = RankedMutex(.directoryCache, [Held]())
  private let signal = Monitor(.directoryCache, Signal())
  private let period: Duration

  package init(period: Duration = .seconds(1)) { self.period = period }

  /// Holds a file.
  package func hold(_ file: consuming Descriptor, of node: Node) {
    let file = SharedDescriptor(file)
    // What is closed is closed without locks.
    node.state.removing { exchange(&$0.handle, with: file) }
    let held = Held(node: node, file: file, end: MonotonicClock.now + period)
    let (isFirst, oldest) = files.withLock { files -> (Bool, Held?) in
      files.append(held)
      return (files.count == 1, files.count > Self.most ? files.removeFirst() : nil)
    }
    if isFirst { signal.update { $0.hasFiles = true } }
    if let oldest { release(oldest) }
  }

  /// Releases files when their time has come, until ``stop()``.
  package func run() {
    while waitForFiles() {
      while let end = files.withLock({ $0.first?.end }) {
        guard wait(until: end) else { return }
        for held in takeEnded() { release(held) }
      }
    }
  }

  package func stop() { signal.update { $0.isStopped = true } }

  /// Returns false at the end.
  private func waitForFiles() -> Bool {
    signal.wait { signal, _ in
      if signal.isStopped { return false }
      return exchange(&signal.hasFiles, with: false) ? true : nil
    }
  }

  /// Returns false at the end.
  private func wait(until end: ContinuousClock.Instant) -> Bool {
    signal.wait { signal, deadline in
      if signal.isStopped { return false }
      deadline = end
      return MonotonicClock.now < end ? nil : true
    }
  }

  private func takeEnded() -> [Held] {
    let now = MonotonicClock.now
    return files.withLock { files in
      let ended = Array(files.prefix { $0.end <= now })
      files.removeFirst(ended.count)
      return ended
    }
  }

  private func release(_ held: Held) {
    held.node.state.removing { state in state.handle === held.file ? state.handle.take() : nil }
  }
}
