import CFUSE
import ProtectfsIO
import SystemPackage

/// Requests that can be answered only after the kernel has written a file's dirty pages back.
///
/// With the write-back cache the kernel asks for data and holes (FUSE_LSEEK) without writing pages back, and would get
/// holes where data is still on its way. A handler must not wait for other handlers. So a thread makes the kernel write
/// the pages, and another one answers: the first has none of the daemon's descriptors (``Session/isolateThread``).
final class WritebackQueue: Sendable {
  /// A waiting seek.
  @safe struct Seek: @unchecked Sendable {
    let request: fuse_req_t
    let node: NodeID
    let handle: Handle
    let offset: UInt64
    let origin: SeekOrigin
  }

  private struct State {
    /// Those whose pages are to be written back.
    var waiting: [Seek] = []
    /// Those whose pages were, or the reason why they were not.
    var ready: [(seek: Seek, failure: Errno?)] = []
    var isStopping = false
  }

  private let state = Monitor(.writebackQueue, State())

  /// Adds a seek, which is answered once its file's pages are written.
  func add(_ seek: Seek) {
    state.update { $0.waiting.append(seek) }
  }

  /// Ends ``writeBack(_:)`` and ``answer()``.
  func stop() {
    state.update { $0.isStopping = true }
  }

  /// Has pages written back until ``stop()``.
  func writeBack(_ session: Session) {
    session.isolateThread()
    while let seeks = next(\.waiting) {
      for seek in seeks {
        let failure = Self.writeBack(seek.node, session)
        state.update { $0.ready.append((seek, failure)) }
      }
    }
  }

  private static func writeBack(_ node: NodeID, _ session: Session) -> Errno? {
    do throws(Errno) { try session.invalidate(node) } catch { return error }
    // As an answer it has programs read everything. A store may hang, and what it says now is out of date.
    let isWritten = session.awaitCopies(of: [node], patience: .seconds(1), atMost: .seconds(1)).isEmpty
    return isWritten ? nil : .invalidArgument
  }

  /// Answers seeks until ``stop()``.
  func answer() {
    while let seeks = next(\.ready) {
      for (seek, failure) in seeks {
        unsafe serve(seek.request) { (fs) throws(Errno) in
          if let failure { throw failure }
          return .offset(try fs.seek(seek.handle, to: seek.offset, seek.origin))
        }
      }
    }
  }

  private func next<Element>(_ list: any WritableKeyPath<State, [Element]> & Sendable) -> [Element]? {
    state.wait { state, _ -> [Element]?? in
      if !state[keyPath: list].isEmpty {
        defer { state[keyPath: list] = [] }
        return state[keyPath: list]
      }
      return state.isStopping ? .some(nil) : nil
    }
  }
}
