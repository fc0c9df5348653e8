/// Who changes a store's backing directory while it is served.
package enum WriterState: Sendable {
  /// This process alone: what it and the kernel have in memory stays true.
  case sole
  /// This process, and others, which it does not hear of.
  case shared
  /// Others, perhaps. This process changes nothing.
  case reading

  package var mayWrite: Bool { self != .reading }
}
