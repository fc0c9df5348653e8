import Synchronization

/// Names that came to be by rename or link while someone goes through the tree.
package final class MovedNames: Sendable {
  private let state = Mutex<[Node.Location]?>(nil)

  /// Returns `false` where somebody else wants to know.
  func begin() -> Bool {
    state.withLock { state in
      guard state == nil else { return false }
      state = []
      return true
    }
  }

  func end() { state.withLock { $0 = nil } }

  /// Notes a name, while somebody wants to know.
  package func note(_ location: Node.Location) { state.withLock { $0?.append(location) } }

  /// A name that nobody has looked at.
  func next() -> Node.Location? { state.withLock { $0?.popLast() } }
}
