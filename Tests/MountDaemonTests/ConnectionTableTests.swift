import Glibc
import ProtectfsIO
import Testing

@testable import MountDaemon

@Suite struct ConnectionTableTests {
  /// A connection, from the server's and the client's side.
  private final class Connection {
    let server: LocalSocket
    private let client: LocalSocket

    init() throws {
      let ends = try LocalSocket.pair()
      server = LocalSocket(owning: ends.0)
      client = LocalSocket(owning: ends.1)
    }

    var isEnded: Bool {
      var byte: UInt8 = 0
      return unsafe recv(client.rawValue, &byte, 1, CInt(MSG_DONTWAIT)) == 0
    }
  }

  private let first: Connection
  private let second: Connection
  private let third: Connection
  private let fourth: Connection
  private var table = ConnectionTable()

  init() throws {
    (first, second) = (try Connection(), try Connection())
    (third, fourth) = (try Connection(), try Connection())
  }

  private mutating func admit(
    _ connection: Connection, of process: Int32 = 1, limit: Int = 2, now: Int64
  ) -> ConnectionTable.Number? {
    table.admit(connection.server.rawValue, of: process, limit: limit, now: now)
  }

  private var ended: [Bool] { [first, second, third, fourth].map(\.isEnded) }

  /// For a client that cannot be accepted, for want of descriptors, a silent one gives way, but no call.
  @Test mutating func aSilentOneGivesWayToAnUnknown() {
    guard let one = admit(first, now: 1), let two = admit(second, now: 2) else {
      Issue.record("there is room for two")
      return
    }
    table.note(one, silentSince: nil)
    #expect(table.makeRoom() && ended == [false, true, false, false])
    table.remove(two)
    let hasRoom = table.makeRoom()
    #expect(!hasRoom && ended == [false, true, false, false])
  }

  @Test mutating func theLongestSilentGivesWay() {
    guard let one = admit(first, now: 1), let two = admit(second, now: 2) else {
      Issue.record("there is room for two")
      return
    }
    table.note(one, silentSince: nil)
    table.note(one, silentSince: 3)
    guard let three = admit(third, now: 4) else {
      Issue.record("the second one gives way")
      return
    }
    #expect(ended == [false, true, false, false])

    // The thread of the second connection has not noticed yet. The connection no longer counts, and is not chosen
    // again.
    table.note(three, silentSince: nil)
    let four = admit(fourth, now: 5)
    #expect(four != nil)
    #expect(ended == [true, true, false, false])
    for number in [one, two] { table.remove(number) }
    #expect(!table.isEmpty)
  }

  /// A process that connects again and again ends its own connections, not those of others.
  @Test mutating func theProcessWithTheMostGivesWay() {
    #expect(admit(first, of: 2, limit: 3, now: 1) != nil)
    let own = [admit(second, limit: 3, now: 2), admit(third, limit: 3, now: 3)]
    #expect(admit(fourth, limit: 3, now: 4) != nil)
    #expect(ended == [false, true, false, false])
    for case let number? in own { table.remove(number) }
  }

  /// One that keeps the daemon busy on many connections keeps nobody out.
  @Test mutating func callsOfAProcessWithManyGiveWay() {
    guard let one = admit(first, now: 1), let two = admit(second, now: 2) else {
      Issue.record("there is room for two")
      return
    }
    for number in [one, two] { table.note(number, silentSince: nil) }
    #expect(admit(third, of: 2, now: 3) != nil)
    #expect(ended == [true, false, false, false])
    // Now each has one, and the other process says nothing.
    #expect(admit(fourth, of: 3, now: 4) != nil)
    #expect(ended == [true, false, true, false])
  }

  @Test mutating func callsAreNotCutShort() {
    guard let one = admit(first, now: 1), let two = admit(second, now: 2) else {
      Issue.record("there is room for two")
      return
    }
    for number in [one, two] { table.note(number, silentSince: nil) }
    let refused = admit(third, now: 3)
    #expect(refused == nil)
    #expect(ended == [false, false, false, false])
    table.remove(one)
    let three = admit(third, now: 4)
    #expect(three != nil)
    #expect(ended == [false, false, false, false])
    table.endAll()
    #expect(ended == [false, true, true, false])
  }
}
