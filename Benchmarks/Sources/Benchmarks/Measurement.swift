import CCounting
import Glibc
import ProtectfsIO

/// What one operation costs: time, allocations, and system calls. The last two are the same on every machine.
struct Measurement {
  let name: String
  /// Bytes that one operation goes through, if that says something.
  let bytes: Int?
  let nanoseconds: Double
  let allocations: Double
  let systemCalls: Double?

  /// Runs an operation until a fifth of a second has passed, five times, and takes the fastest.
  init(_ name: String, bytes: Int? = nil, _ operation: @escaping () throws -> Void) rethrows {
    self.name = name
    self.bytes = bytes
    var best = Double.infinity
    var perOperation = 0.0
    try operation()
    for _ in 0..<5 {
      var rounds = 0
      let allocated = counting_allocations()
      let start = MonotonicClock.nanoseconds
      var now = start
      while now - start < 40_000_000 {
        for _ in 0..<16 { try operation() }
        rounds += 16
        now = MonotonicClock.nanoseconds
      }
      best = min(best, Double(now - start) / Double(rounds))
      perOperation = Double(counting_allocations() - allocated) / Double(rounds)
    }
    nanoseconds = best
    allocations = perOperation
    systemCalls = Self.systemCalls(of: operation)
  }

  /// How many system calls an operation makes, once it has been done before; `nil` where that cannot be traced.
  private static func systemCalls(of operation: @escaping () throws -> Void) -> Double? {
    let box = Box { for _ in 0..<16 { try? operation() } }
    let count = unsafe counting_system_calls(
      { unsafe Unmanaged<Box>.fromOpaque($0!).takeUnretainedValue().body() }, Unmanaged.passUnretained(box).toOpaque())
    return count < 0 ? nil : Double(count) / 16
  }

  private final class Box {
    let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
  }

  /// A line of a Markdown table.
  var row: String {
    let rate = bytes.map { "\(Self.rounded(Double($0) / nanoseconds)) GB/s" } ?? ""
    return "| \(name) | \(Self.rounded(nanoseconds / 1000)) µs | \(rate) | \(Self.rounded(allocations)) "
      + "| \(systemCalls.map(Self.rounded) ?? "") |"
  }

  private static func rounded(_ number: Double) -> String {
    let tenths = Int((number * 100).rounded())
    return tenths % 100 == 0 ? "\(tenths / 100)" : "\(tenths / 100).\(tenths % 100 < 10 ? "0" : "")\(tenths % 100)"
  }
}
