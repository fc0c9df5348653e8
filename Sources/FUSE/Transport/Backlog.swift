import ProtectfsIO
import Synchronization
import SystemPackage

/// Requests that the reserve took from the kernel and could not answer without the store, until a worker is free.
///
/// While there are some, a descriptor is readable, so that who sleeps at the device wakes.
final class Backlog: Sendable {
  /// How many requests it takes, and how many bytes of them; then the reserve leaves what comes to the kernel.
  private static let longest = 1024
  private static let mostBytes = 64 << 20

  private struct State {
    var requests: [PutOffRequest] = []
    var bytes = 0
  }

  private let state = Mutex(State())
  private let count = Atomic<Int>(0)
  /// Readable while there are requests.
  let signal: EventDescriptor

  init() throws(Errno) {
    signal = try EventDescriptor()
  }

  /// One load of a number that hardly ever changes.
  @inline(__always) var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

  var hasRoom: Bool { state.withLock { $0.requests.count < Self.longest && $0.bytes < Self.mostBytes } }

  /// Puts a request off.
  func add(_ request: UnsafeRawBufferPointer) {
    let copy = unsafe PutOffRequest(request)
    state.withLock { state in
      state.requests.append(copy)
      state.bytes += copy.count
      count.store(state.requests.count, ordering: .sequentiallyConsistent)
    }
    signal.raise()
  }

  /// Takes the oldest request, and copies it. Returns its bytes, or 0 if there is none.
  func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    guard let request = state.withLock({ $0.requests.isEmpty ? nil : remove(at: 0, from: &$0) }) else { return 0 }
    clearIfEmpty()
    unsafe request.copy(into: buffer)
    return request.count
  }

  /// What is waiting.
  var all: [RequestHeader] { state.withLock { $0.requests.map(\.header) } }

  /// Takes a request out that is to be answered without being served. Returns whether it was still there.
  func remove(_ header: RequestHeader) -> Bool {
    let removed = state.withLock { state -> PutOffRequest? in
      guard let index = state.requests.firstIndex(where: { $0.header.unique == header.unique }) else { return nil }
      return remove(at: index, from: &state)
    }
    clearIfEmpty()
    return removed != nil
  }

  private func clearIfEmpty() {
    guard isEmpty else { return }
    signal.clear()
    // One may have come in between.
    if !isEmpty { signal.raise() }
  }

  private func remove(at index: Int, from state: inout State) -> PutOffRequest {
    let request = state.requests.remove(at: index)
    state.bytes -= request.count
    count.store(state.requests.count, ordering: .sequentiallyConsistent)
    return request
  }
}

/// A copy of a request, which may carry plaintext: it is kept out of core dumps, and wiped with this object.
@safe private final class PutOffRequest: @unchecked Sendable {
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
