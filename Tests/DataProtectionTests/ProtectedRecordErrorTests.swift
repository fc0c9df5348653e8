import Foundation
import Testing

@testable import DataProtection

/// Errors of records as programs catch them, without a mount.
@Suite struct ProtectedRecordErrorTests {
  private let url = URL(fileURLWithPath: "/zone")

  /// `as NSError` catches all errors for the compiler, so that one that is not bridged ends the program.
  @Test func theyAreNSErrors() throws {
    let underlying = CocoaError(.fileReadUnknown)
    let errors: [any Error] = [
      ProtectedRecordError(.zoneNotFound, url, userDidResetEncryptedData: true, underlying),
      ProtectedRecordError(.unknownItem, url),
    ]
    for error in errors {
      let object = try #require(error as Any as? NSError)
      let record = try #require(error as? ProtectedRecordError)
      #expect(object.domain == "ProtectedRecordErrorDomain" && object.code == record.code.rawValue)
      #expect(object.userInfo[NSURLErrorKey] as? URL == url)
      #expect(object.localizedDescription == record.localizedDescription)
      let isReset = object.userInfo[ProtectedRecordError.userDidResetEncryptedDataKey] != nil
      #expect(isReset == (record.code == .zoneNotFound))
      let again = try #require((object as any Error) as? ProtectedRecordError)
      #expect(again.code == record.code && again.url == url && again.isReset == isReset)
      do { throw error } catch let caught as NSError { #expect(caught.code == object.code) }
    }
    let other: any Error = NSError(domain: NSCocoaErrorDomain, code: 26)
    #expect(other as? ProtectedRecordError == nil)
  }

  @Test func theyAreCaughtByTheirCodes() {
    func caught(_ error: any Error) -> String {
      do {
        throw error
      } catch ProtectedRecordError.zoneNotFound {
        return "zone"
      } catch ProtectedRecordError.unknownItem {
        return "item"
      } catch {
        return "other"
      }
    }
    #expect(caught(ProtectedRecordError(.zoneNotFound, url)) == "zone")
    #expect(caught(ProtectedRecordError(.unknownItem, url)) == "item")
    #expect(caught(CocoaError(.fileReadUnknown)) == "other")
  }

  /// What records throw for values can be caught as an NSError too.
  @Test func valuesThrowFoundationsErrors() throws {
    let values = ProtectedRecord(named: "letter").encryptedValues
    values["opaque"] = NSObject()
    values["author"] = "Ana"
    let error = #expect(throws: CocoaError.self) { try values.changes(isNew: false) }
    #expect(error?.code == .coderInvalidValue && error?.localizedDescription.contains("field opaque") == true)
    #expect(#expect(throws: CocoaError.self) { try values.value(forKey: "author", as: Int.self) } != nil)
    #expect(try values.value(forKey: "nothing", as: Int.self) == nil)
    #expect(values.changedKeys() == ["author", "opaque"])
  }
}
