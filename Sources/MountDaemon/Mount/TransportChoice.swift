import ProtectfsIO

/// Whether requests come through rings where nobody has said so: these spare the waking of another processor, and keep
/// the client and the thread that serves it from working at a time.
enum TransportChoice: Equatable {
  /// Waking a processor takes so long that rings are faster.
  case rings(wakeup: Duration)
  /// It does not.
  case device(wakeup: Duration)
  /// It cannot be said: there is one processor, or they are busy.
  case unknown

  /// What waking a processor takes at most where /dev/fuse is faster: between what it takes where processors halt and
  /// where they sleep (PERFORMANCE.md).
  static let dearWakeup = Duration.microseconds(12)
  /// From which spread on a measurement says nothing.
  private static let wideSpread = 3.0

  init(_ cost: WakeupCost?) {
    guard let cost, cost.spread <= Self.wideSpread else {
      self = .unknown
      return
    }
    self = cost.median < Self.dearWakeup ? .device(wakeup: cost.median) : .rings(wakeup: cost.median)
  }

  var usesRings: Bool { if case .device = self { false } else { true } }

  /// The reason, in words for people.
  var reason: String {
    switch self {
    case .rings(let time): "waking a processor takes \(time.inMicroseconds) µs here, which rings spare"
    case .device(let time): "waking a processor takes \(time.inMicroseconds) µs here, too little for rings to pay"
    case .unknown: "what waking a processor takes could not be measured"
    }
  }
}

extension Duration {
  fileprivate var inMicroseconds: Int { Int((self / .microseconds(1)).rounded()) }
}
