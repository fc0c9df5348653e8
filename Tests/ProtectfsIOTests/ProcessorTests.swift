import Synchronization
import SystemPackage
import Testing

@testable import ProtectfsIO

/// The processors that a thread may run on before and after it writes on one of them.
@Suite struct ProcessorTests {
  /// Those of the calling thread, as the kernel shows them.
  private static var processors: String? {
    let status = try? Descriptor.open("/proc/thread-self/status", [.readOnly]).readAll(limit: 1 << 14)
    return status.flatMap { String(decoding: $0, as: UTF8.self).split(separator: "\n") }?
      .first { $0.hasPrefix("Cpus_allowed:") }.map(String.init)
  }

  private static func writeOnFirst(to file: CInt) {
    #expect(throws: Never.self) {
      try unsafe [1].withUnsafeBytes { try unsafe CommandRing.write($0, to: file, on: 0) }
    }
  }

  @Test(arguments: [true, false]) func aWriteOnAProcessorDoesNotMoveTheThread(isBound: Bool) throws {
    let null = try Descriptor.open("/dev/null", [.writeOnly])
    let descriptor = null.rawValue
    let seen = Mutex<[String?]>([])
    let thread = try Thread(starting: "processors") {
      if isBound { CommandRing.bindThread(to: 0) }
      seen.withLock { $0.append(Self.processors) }
      for _ in 0..<2 {
        Self.writeOnFirst(to: descriptor)
        seen.withLock { $0.append(Self.processors) }
      }
    }
    thread.join()
    let all = seen.withLock { $0 }
    #expect(all.count == 3 && all[0] != nil)
    #expect(Set(all).count == 1, "\(all)")
  }
}
