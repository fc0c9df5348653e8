import Testing

@testable import FUSE

/// When an answer is late because Linux moves its client with each.
@Suite struct ClientMovesTests {
  private let moves = ClientMoves()

  /// Makes requests, 20 µs apart, and returns which were late.
  private func requests(
    _ count: Int, of client: UInt32 = 1000, from start: Int64 = 0, isAlone: Bool = true, on queue: (Int) -> Int
  ) -> [Int] {
    (0..<count).filter { index in
      moves.noteRequest(
        of: client, on: queue(index), isAlone: { isAlone }, now: { start + Int64(index) * 20_000 })
    }
  }

  @Test func ofAClientThatStaysNoAnswerIsLate() {
    #expect(requests(1000, on: { _ in 1 }).isEmpty)
  }

  @Test func ofAClientThatMovesNowAndThenNoAnswerIsLate() {
    #expect(requests(1000, on: { $0 / 5 % 2 }).isEmpty)
  }

  @Test func fourMovesInARowMakeAnAnswerLate() {
    #expect(requests(5, on: { $0 % 2 }) == [4])
  }

  @Test func twoClientsOnTwoProcessorsAreNoMoves() {
    let late = (0..<1000).filter {
      moves.noteRequest(of: 1000 + UInt32($0 % 2), on: $0 % 2, isAlone: { true }, now: { 0 })
    }
    #expect(late.isEmpty)
  }

  @Test func twoClientsThatShareAPlaceDriveEachOtherOut() {
    let late = (0..<1000).filter {
      moves.noteRequest(of: 1000 + 64 * UInt32($0 % 2), on: $0 % 2, isAlone: { true }, now: { 0 })
    }
    #expect(late.isEmpty)
  }

  @Test func besideOtherRequestsNoAnswerIsLateAndNoneCountsAsTried() {
    #expect(requests(100_000, isAlone: false, on: { $0 % 2 }).isEmpty)
    #expect(requests(5 * ClientMoves.patience, on: { $0 % 2 }).count >= ClientMoves.patience)
  }

  @Test func lateAnswersWithoutEffectBecomeRare() {
    // Two seconds of requests, each on another processor.
    let late = requests(100_000, on: { $0 % 2 })
    #expect((ClientMoves.patience...ClientMoves.patience + 13).contains(late.count), "\(late.count)")
    let last = late.suffix(2)
    #expect((last.last ?? 0) - (last.first ?? 0) >= 20_000, "\(late)")
  }

  @Test func aLateAnswerWithEffectBringsBackThePatience() {
    let start: Int64 = 3_000_000_000
    #expect(requests(100_000, on: { $0 % 2 }).count > ClientMoves.patience)
    // Of another client, an answer is late once more, and then it stays.
    #expect(requests(5, of: 1001, from: start, on: { $0 % 2 }) == [4])
    #expect(requests(Int(ClientMoves.trial), of: 1001, from: start, on: { _ in 0 }).isEmpty)
    let late = requests(5 * ClientMoves.patience, of: 1001, from: start, on: { $0 % 2 })
    #expect(late.count >= ClientMoves.patience, "\(late)")
  }
}
