import ProtectfsIO

/// Names that appeared by rename or link while a thread walks the tree.
package final class MovedNames: Sendable {
  private let state = RankedMutex<[Node.Location]?>(.movedNames, nil)

  /// Starts recording. Returns `false` if another walk is recording already.
  func begin() -> Bool {
    state.withLock { state in
      guard state == nil else { return false }
      state = []
      return true
    }
  }

  func end() {
    // Their directories may be closed by that, which is not done under the lock.
    state.removing { $0.take() }
  }

  /// Records a name if a walk is under way.
  package func note(_ location: Node.Location) { state.withLock { $0?.append(location) } }

  /// Removes and returns a recorded name that the walk has not visited.
  func next() -> Node.Location? { state.withLock { $0?.popLast() } }
}
