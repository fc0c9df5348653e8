import FoundationEssentials
import Testing

@testable import ProtectfsClient
@testable import ProtectfsPolicy

@Suite struct DaemonEventTests {
  private static let events: [(DaemonEvent, String)] = [
    (.monitoringBegan(.locked), #"{"event":"monitoringBegan","state":"locked"}"#),
    (
      .willBecomeUnavailable(classes: [.complete, .completeUnlessOpen], seconds: 10),
      #"{"classes":["complete","completeUnlessOpen"],"event":"willBecomeUnavailable","seconds":10}"#
    ),
    (
      .didBecomeUnavailable(classes: [.completeWhenUserInactive]),
      #"{"classes":["completeWhenUserInactive"],"event":"didBecomeUnavailable"}"#
    ),
    (
      .didBecomeAvailable(classes: [.complete]),
      #"{"classes":["complete"],"event":"didBecomeAvailable"}"#
    ),
    (
      .accessDenied(
        AccessDenial(code: .fileWriteNoPermission, protectionClass: .complete, path: "/a\"b", processID: 12)),
      #"{"class":"complete","code":513,"event":"accessDenied","path":"/a\"b","pid":12}"#
    ),
    (.eventsDropped(3), #"{"count":3,"event":"eventsDropped"}"#),
  ]

  @Test(arguments: events)
  func codedAsOneFlatObject(_ event: DaemonEvent, _ json: String) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    #expect(String(decoding: try encoder.encode(event), as: UTF8.self) == json)
    #expect(try JSONDecoder().decode(DaemonEvent.self, from: Data(json.utf8)) == event)
  }

  @Test(arguments: [
    #"{"event":"unheardOf"}"#, #"{"event":"accessDenied","code":258,"class":"complete","path":"/","pid":1}"#,
    #"{"state":"locked"}"#,
  ])
  func othersAreRefused(_ json: String) {
    #expect(throws: DecodingError.self) { try JSONDecoder().decode(DaemonEvent.self, from: Data(json.utf8)) }
  }
}
