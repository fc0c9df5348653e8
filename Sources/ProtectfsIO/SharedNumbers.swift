import ProtectfsLibc
import SystemPackage

/// Numbers in memory that a process shares with processes it forks later. They remain when the process is killed.
///
/// Memory is allocated as it is used, 8 bytes per number (mmap(2), `MAP_NORESERVE`).
@safe package final class SharedNumbers: @unchecked Sendable {
  /// The capacity in words. Each holds a number, except the first, which counts the words that were ever used.
  private static let room = 1 << 24
  private static let first = 1

  private let words: UnsafeMutablePointer<UInt64>
  /// The last place that was released. Each contains the one before it, as an odd number. 0: none.
  private let free = RankedMutex<Int>(.sharedNumbers, 0)

  package init() throws(Errno) {
    let flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE
    let address = unsafe mmap(nil, Self.room * 8, PROT_READ | PROT_WRITE, flags, -1, 0)
    guard let address = unsafe address, unsafe address != MAP_FAILED else { throw Errno(rawValue: errno) }
    unsafe words = address.bindMemory(to: UInt64.self, capacity: Self.room)
    unsafe words[0] = UInt64(Self.first)
  }

  deinit {
    unsafe munmap(words, Self.room * 8)
  }

  /// The place of a number, for its removal.
  package struct Place: Sendable {
    fileprivate let index: Int32
  }

  /// Adds an even number; `nil` if there is no room.
  package func add(_ number: UInt64) -> Place? {
    free.withLock { free in
      var index = free
      if index != 0 {
        free = unsafe Int(words[index] >> 1)
      } else {
        index = unsafe Int(words[0])
        guard index < Self.room else { return nil }
        unsafe words[0] += 1
      }
      unsafe words[index] = number
      return Place(index: Int32(index))
    }
  }

  /// Removes a number.
  package func remove(_ place: Place) {
    free.withLock { free in
      unsafe words[Int(place.index)] = UInt64(free) << 1 | 1
      free = Int(place.index)
    }
  }

  /// One of the numbers, if there is one among the places that are used first.
  package var any: UInt64? {
    free.withLock { _ in
      let end = min(unsafe Int(words[0]), 64)
      for index in Self.first..<max(end, Self.first) where unsafe words[index] & 1 == 0 { return unsafe words[index] }
      return nil
    }
  }

  /// Whether there may be a number that found no room.
  package var isFull: Bool { unsafe words[0] >= UInt64(Self.room) }

  /// Calls `body` with each number, in a process in which no thread changes them meanwhile.
  package func forEach(_ body: (UInt64) -> Void) {
    let end = min(unsafe Int(words[0]), Self.room)
    for index in Self.first..<max(end, Self.first) {
      let number = unsafe words[index]
      if number & 1 == 0 { body(number) }
    }
  }
}
