import ProtectfsIO
import Testing

@testable import MountDaemon

/// How requests come where nobody has said it.
@Suite struct TransportChoiceTests {
  private func choice(microseconds: [Int64]) -> TransportChoice {
    TransportChoice(WakeupCost(microseconds.map { $0 * 1000 }))
  }

  @Test func cheapWakeupsNeedNoRings() {
    let cheap = choice(microseconds: [Int64](repeating: 5, count: 50) + [4000])
    #expect(cheap == .device(wakeup: .microseconds(5)) && !cheap.usesRings)
    #expect(cheap.reason == "waking a processor takes 5 µs here, too little for rings to pay")
  }

  @Test func ringsSpareDearOnes() {
    let dear = choice(microseconds: [Int64](repeating: 62, count: 45))
    #expect(dear == .rings(wakeup: .microseconds(62)) && dear.usesRings)
    #expect(dear.reason == "waking a processor takes 62 µs here, which rings spare")
  }

  /// One processor, too few times, or such as differ much.
  @Test func whatCannotBeMeasured() {
    let wide = [Int64](repeating: 5, count: 25) + [Int64](repeating: 60, count: 26)
    for choice in [TransportChoice(nil), choice(microseconds: [5, 5, 5]), choice(microseconds: wide)] {
      #expect(choice == .unknown && choice.usesRings)
    }
  }

  @Test func measuringEnds() {
    // Whatever it finds on this machine.
    if let cost = WakeupCost.measure() { #expect(cost.median > .zero && cost.spread >= 1) }
  }
}
