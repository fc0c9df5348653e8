import ProtectfsIO
import ProtectfsPolicy
import Testing

@testable import BackingTree

/// How long it is known which files have left their names.
@Suite struct VacatedNameTests {
  private func with(_ body: (VacatedNames, (String) -> Node.Location, SimulatedTime) throws -> Void) throws {
    try InProcessStore.with { store in
      let root = store.tree.nodes.root
      let time = SimulatedTime()
      try time.run { try body(VacatedNames(), { Node.Location(parent: root, name: PathName($0)) }, time) }
    }
  }

  @Test func areForgottenAfterTwoMinutes() throws {
    try with { names, at, time in
      names.note(at("a"), .init(fileClass: .complete, user: 7))
      time.pass(.seconds(59))
      names.note(at("b"), .init(fileClass: .none, user: 8))
      #expect(names.former(at: at("a"))?.fileClass == .complete)
      #expect(names.former(at: at("a"))?.user == 7)
      time.pass(.seconds(59))
      #expect(names.former(at: at("b"))?.fileClass == ProtectionClass.none)
      time.pass(.seconds(61))
      #expect(names.former(at: at("a")) == nil && names.former(at: at("b")) == nil)
    }
  }

  /// What leaves the name afterwards counts.
  @Test func theLastOneCounts() throws {
    try with { names, at, time in
      names.note(at("a"), .init(fileClass: .complete, user: 0))
      time.pass(.seconds(70))
      names.note(at("b"), .init(fileClass: .complete, user: 0))
      names.note(at("a"), nil)
      #expect(names.former(at: at("a")) == nil && names.former(at: at("b")) != nil)
    }
  }

  /// However many names are left, the last hundreds are known, and only so many.
  @Test func theirNumberIsBounded() throws {
    try with { names, at, _ in
      for number in 0..<10_000 {
        names.note(at("\(number)"), .init(fileClass: .complete, user: 0))
        names.note(at("other"), nil)
        #expect(names.former(at: at("\(max(0, number - 500))")) != nil)
      }
      #expect((0..<10_000).count { names.former(at: at("\($0)")) != nil } <= 1024)
    }
  }
}
