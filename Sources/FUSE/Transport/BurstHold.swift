import ProtectfsIO

/// Keeps processors from deep sleep during bursts of requests, in which callers and workers spend most of their time
/// waiting for each other, or for the disk, to wake.
final class BurstHold: Sendable {
  /// What requests come through.
  struct Transports: OptionSet {
    let rawValue: UInt8
    static let device = Transports(rawValue: 1)
    static let rings = Transports(rawValue: 2)
  }

  private let latency: WakeupLatency
  /// Those that have a burst.
  private let busy = RankedMutex(.wakeupLatency, Transports())

  init(_ latency: WakeupLatency) { self.latency = latency }

  /// Requests come through a transport at a rate.
  func update(_ transport: Transports, _ rate: RequestRate) {
    if rate.isBurst { set(transport, true) } else if rate.isCalm { set(transport, false) }
  }

  /// A transport is not looked at any more.
  func end(_ transport: Transports) { set(transport, false) }

  private func set(_ transport: Transports, _ isBusy: Bool) {
    busy.withLock { busy in
      let wasHeld = !busy.isEmpty
      if isBusy { busy.insert(transport) } else { busy.remove(transport) }
      if wasHeld == busy.isEmpty { latency.hold(!busy.isEmpty) }
    }
  }
}

/// How many requests come in a millisecond, with less weight for earlier ones.
struct RequestRate {
  /// The number of requests in a millisecond from which on they are a burst.
  private static let burst: UInt64 = 4
  /// The number of looks that the rate is taken over.
  private static let weight: UInt64 = 4

  private let milliseconds: UInt64
  private var recent: UInt64 = 0

  /// `interval` is in microseconds.
  init(looksEvery interval: Int64) { milliseconds = UInt64(max(1, interval / 1000)) }

  mutating func add(_ count: UInt64) { recent = recent - recent / Self.weight + count }

  mutating func reset() { recent = 0 }

  var isBurst: Bool { recent >= Self.weight * Self.burst * milliseconds }
  /// There are so few that none is likely to follow soon.
  var isCalm: Bool { recent < Self.burst * milliseconds }
}
