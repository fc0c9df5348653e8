import CFUSE
import ProtectfsIO
import SystemPackage

/// Requests that can be answered only after the kernel has written a file's dirty pages back.
///
/// With the write-back cache the kernel asks for data and holes (FUSE_LSEEK) without writing pages back, and would get
/// holes where data is still on its way. A thread of its own makes the kernel write the pages and then answers, since a
/// handler must not wait for other handlers.
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
    var waiting: [Seek] = []
    var isStopping = false
  }

  private let state = Monitor(.writebackQueue, State())

  /// Adds a seek, which is answered once its file's pages are written.
  func add(_ seek: Seek) {
    state.update { $0.waiting.append(seek) }
  }

  /// Ends ``run(_:)``.
  func stop() {
    state.update { $0.isStopping = true }
  }

  /// Answers seeks until ``stop()``.
  func run(_ session: Session) {
    while let seeks = next() {
      for seek in seeks {
        unsafe serve(seek.request) { (fs) throws(Errno) in
          try session.invalidate(seek.node)
          // As an answer it has programs read everything. A store may hang, and what it says now is out of date.
          guard session.awaitCopies(of: [seek.node], for: .seek, patience: .seconds(1)).isEmpty else {
            throw .invalidArgument
          }
          return .offset(try fs.seek(seek.handle, to: seek.offset, seek.origin))
        }
      }
    }
  }

  private func next() -> [Seek]? {
    state.wait { state, _ -> [Seek]?? in
      if !state.waiting.isEmpty {
        defer { state.waiting = [] }
        return state.waiting
      }
      return state.isStopping ? .some(nil) : nil
    }
  }
}
