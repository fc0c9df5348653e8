import ProtectfsIO
import Synchronization
import SystemPackage

/// Requests that the reserve took from the kernel and could not answer without the store. They wait for a free worker.
///
/// While there are any, a descriptor is readable, so that a worker that sleeps at the device wakes.
final class Backlog: Sendable {
  /// The maximum number and total size of requests. When either is reached, the reserve leaves requests in the kernel.
  private static let longest = 1024
  private static let mostBytes = 64 << 20

  private struct State {
    var requests: [DeferredRequest] = []
    var bytes = 0
  }

  private let state = RankedMutex(.backlog, State())
  private let atomicCount = Atomic<Int>(0)
  /// Readable while there are requests.
  let signal: EventDescriptor

  init() throws(Errno) {
    signal = try EventDescriptor()
  }

  /// One load of a number that rarely changes.
  @inline(__always) var isEmpty: Bool { count == 0 }

  /// The number of requests.
  var count: Int { atomicCount.load(ordering: .relaxed) }

  var hasRoom: Bool { state.withLock { $0.requests.count < Self.longest && $0.bytes < Self.mostBytes } }

  /// Defers a request.
  func add(_ request: UnsafeRawBufferPointer) {
    let copy = unsafe DeferredRequest(request)
    state.withLock { state in
      state.requests.append(copy)
      state.bytes += copy.count
      atomicCount.store(state.requests.count, ordering: .sequentiallyConsistent)
    }
    signal.raise()
  }

  /// Takes the oldest request and copies it. Returns its length in bytes, or 0 if there is none.
  func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    guard let request = state.withLock({ $0.requests.isEmpty ? nil : remove(at: 0, from: &$0) }) else { return 0 }
    clearIfEmpty()
    unsafe request.copy(into: buffer)
    return request.count
  }

  /// The headers of the deferred requests.
  var all: [RequestHeader] { state.withLock { $0.requests.map(\.header) } }

  /// Removes a request that will be answered without being served. Returns whether it was still there.
  func remove(_ header: RequestHeader) -> Bool {
    let removed = state.withLock { state -> DeferredRequest? in
      guard let index = state.requests.firstIndex(where: { $0.header.unique == header.unique }) else { return nil }
      return remove(at: index, from: &state)
    }
    clearIfEmpty()
    return removed != nil
  }

  private func clearIfEmpty() {
    guard isEmpty else { return }
    signal.clear()
    // A request may have been added in between.
    if !isEmpty { signal.raise() }
  }

  private func remove(at index: Int, from state: inout State) -> DeferredRequest {
    let request = state.requests.remove(at: index)
    state.bytes -= request.count
    atomicCount.store(state.requests.count, ordering: .sequentiallyConsistent)
    return request
  }
}

/// A copy of a request. It may contain plaintext, so it is kept out of core dumps and wiped when this object is freed.
@safe private final class DeferredRequest: @unchecked Sendable {
  let header: RequestHeader
  let count: Int
  private let buffer: AlignedBuffer

  init(_ request: UnsafeRawBufferPointer) {
    count = request.count
    unsafe header = RequestHeader(request)
    buffer = AlignedBuffer(count: (request.count + 4095) & ~4095)
    unsafe Memory.keepOutOfCoreDumps(buffer.bytes)
    unsafe buffer.bytes.copyMemory(from: request)
  }

  func copy(into other: UnsafeMutableRawBufferPointer) {
    unsafe other.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer.bytes[..<count]))
  }
}
