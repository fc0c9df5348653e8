import CFUSE
import ProtectfsIO
import Synchronization

/// A request that waits for a free worker, in the buffer that it came in.
struct DeferredRingRequest: Sendable {
  let header: RequestHeader
  let buffer: RequestBuffer
  fileprivate let size: Int

  fileprivate init(_ buffer: RequestBuffer) {
    let answer = RingAnswer()
    answer.buffer = buffer
    let request = unsafe answer.begin()
    unsafe header = RequestHeader(
      request.map { unsafe UnsafeRawBufferPointer(rebasing: $0.request[..<$0.count]) }
        ?? UnsafeRawBufferPointer(buffer.bytes))
    self.buffer = buffer
    size = RequestBuffer.headerSize + answer.receivedCount
  }
}

/// A buffer with an answer, which the keeper is to commit.
struct AnsweredBuffer: Sendable {
  let buffer: RequestBuffer
  /// How many bytes of data are wiped when the kernel has the answer.
  var secrets = 0
}

// What goes from one thread to another. A thread with one buffer is never given a request while it serves another: so a
// worker that takes a deferred request leaves its own buffer to the keeper.
extension RequestRings {
  /// The maximum number and total size of deferred requests.
  private static let mostDeferred = 1024
  private static let mostDeferredBytes = 64 << 20

  /// Whether another request can be deferred.
  var hasRoom: Bool {
    state.withLock { $0.deferred.count < Self.mostDeferred && $0.deferredBytes < Self.mostDeferredBytes }
  }

  /// Defers the request in a buffer.
  func deferRequest(in buffer: RequestBuffer) {
    let request = DeferredRingRequest(buffer)
    state.withLock { state in
      state.deferred.append(request)
      state.deferredBytes += request.size
      deferredCount.store(state.deferred.count, ordering: .sequentiallyConsistent)
    }
    widenAll()
    keeper.alert()
  }

  /// Takes the buffer of the oldest deferred request, to be served.
  func takeDeferred() -> RequestBuffer? {
    if deferredCount.load(ordering: .relaxed) == 0 { return nil }
    return state.withLock { state in state.deferred.isEmpty ? nil : remove(at: 0, from: &state).buffer }
  }

  /// The headers of the deferred requests.
  var deferred: [RequestHeader] { state.withLock { $0.deferred.map(\.header) } }

  /// Answers a deferred request with an error. Returns whether it was still there.
  func refuseDeferred(_ error: CInt, _ header: RequestHeader) -> Bool {
    let request = state.withLock { state -> DeferredRingRequest? in
      guard let index = state.deferred.firstIndex(where: { $0.header.unique == header.unique }) else { return nil }
      return remove(at: index, from: &state)
    }
    guard let request else { return false }
    // It may have carried plaintext.
    RingAnswer.wipeData(of: request.buffer, from: 0, to: request.size - RequestBuffer.headerSize)
    RingAnswer.refuse(error, to: header.unique, in: request.buffer)
    handOver(AnsweredBuffer(buffer: request.buffer))
    return true
  }

  /// Leaves a buffer to the keeper, which commits the answer in it.
  func handOver(_ buffer: AnsweredBuffer) {
    state.withLock { $0.answered.append(buffer) }
    keeper.wake()
  }

  /// The buffers that were handed over.
  func takeAnswered() -> [AnsweredBuffer] {
    state.withLock { state in
      defer { state.answered = [] }
      return state.answered
    }
  }

  private func remove(at index: Int, from state: inout State) -> DeferredRingRequest {
    let request = state.deferred.remove(at: index)
    state.deferredBytes -= request.size
    deferredCount.store(state.deferred.count, ordering: .sequentiallyConsistent)
    return request
  }
}
