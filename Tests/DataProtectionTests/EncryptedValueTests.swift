import Foundation
import Testing

@testable import DataProtection

/// Values of encrypted fields as bytes, without a mount.
@Suite struct EncryptedValueTests {
  private struct Address: Codable, Equatable {
    var street: String
    var number: Int
    var moved: Date?
  }

  private enum Colour: String, Codable { case red, blue }

  /// Encodes a value, and returns what is decoded from the bytes.
  private func stored<Value: Codable>(_ value: Value) throws -> Value {
    try EncryptedValue(bytes: EncryptedValue(value).bytes).decoded(as: Value.self)
  }

  private func expectKept<Value: Codable & Equatable>(_ value: Value) throws {
    #expect(try stored(value) == value)
  }

  @Test func valuesAreKept() throws {
    let date = Date(timeIntervalSinceReferenceDate: 812_345_678.125)
    try expectKept("Grüße")
    try expectKept("")
    try expectKept(Data([0, 1, 255]))
    try expectKept(date)
    try expectKept(true)
    try expectKept([Int.min, -1, 0, 1, .max])
    for value in [Int.min, -1, 0, 1, .max] { try expectKept(value) }
    try expectKept(Int8.min)
    try expectKept(Int64.max)
    try expectKept(UInt64.max)
    try expectKept(Float(2.5))
    try expectKept(Double.pi)
    try expectKept(UUID())
    try expectKept([UUID()])
    try expectKept(try #require(URL(string: "https://example.org/a%20b?c#d")))
    try expectKept([try #require(URL(string: "https://example.org"))])
    try expectKept(URL(fileURLWithPath: "/a b"))
    try expectKept(["a", "b"])
    try expectKept([[1, 2], [3]])
    try expectKept(["a": 1, "b": 2])
    try expectKept(["a": ["b": [date]]])
    try expectKept([String: Int]())
    try expectKept(Address(street: "Hauptstraße", number: 7, moved: date))
    try expectKept([Address(street: "Hauptstraße", number: 7, moved: nil)])
    try expectKept(Colour.blue)
    try expectKept(Decimal(string: "3.14159265358979323846"))
  }

  /// The text by which the encoder of property lists stands for nothing.
  @Test func textOfAnyKindIsKept() throws {
    try expectKept("$null")
    try expectKept(["$null", "a"])
    let first = Data(base64Encoded: "YnBsaXN0MDBVJG51bGwIAAAAAAAAAQEAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAA4=")
    #expect(try EncryptedValue(bytes: Array(#require(first))).decoded(as: String.self) == "$null")
    try expectKept(["a": "$null"])
    try expectKept(["a", nil, "b"])
    // Elsewhere it would be read as nil.
    struct Note: Codable { var text: String? }
    for value in [Note(text: "$null"), [[Note(text: "$null")]], ["a": ["$null"]], ["$null", nil]] as [any Encodable] {
      #expect(throws: EncodingError.self) { try EncryptedValue(value) }
    }
    #expect(try stored(Note(text: nil)).text == nil)
    #expect(try EncryptedValue(NSArray(array: ["$null"])).propertyList as? [String] == ["$null"])
  }

  /// As on Apple's systems, where a Boolean is an NSNumber.
  @Test func booleansAreNumbers() throws {
    for value in [true, NSNumber(value: true)] as [Any] {
      let found = try EncryptedValue(value).propertyList
      #expect(found as? Bool == true && found as? Int == 1 && found as? Double == 1 && found as? NSNumber == 1)
      #expect(found as? String == nil && found as? [Int] == nil)
    }
    let list = try EncryptedValue([true, false]).propertyList
    #expect(list as? [Bool] == [true, false] && list as? [Int] == [1, 0] && list as? [NSNumber] == [1, 0])
    #expect(try EncryptedValue(["a": true]).propertyList as? [String: Int] == ["a": 1])
    let mixed = try EncryptedValue(NSArray(array: ["a", true])).propertyList as? [Any]
    #expect(mixed?.last as? Int == 1 && mixed?.last as? Bool == true)
    #expect(try EncryptedValue(bytes: EncryptedValue(true).bytes).decoded(as: Bool.self))
  }

  /// Decimal numbers keep all digits, or are refused.
  @Test func decimalNumbers() throws {
    func found(_ text: String) throws -> Any { try EncryptedValue(NSDecimalNumber(string: text)).propertyList }
    #expect(try found("7") as? Int == 7 && found("-7.50") as? Double == -7.5 && found("19.99") as? Double == 19.99)
    #expect(try found("9007199254740993") as? Int64 == 9_007_199_254_740_993)
    #expect(try EncryptedValue(NSDecimalNumber(string: "7")).decoded(as: Int.self) == 7)
    let long = NSDecimalNumber(string: "3.14159265358979323846")
    for value in [long, NSArray(array: [1, long]), NSDictionary(dictionary: ["a": [long]])] as [Any] {
      #expect(throws: EncodingError.self) { try EncryptedValue(value) }
    }
    #expect(throws: EncodingError.self) { try EncryptedValue(NSDecimalNumber.notANumber) }
    try expectKept(long as Decimal)
    let prices = try EncryptedValue(NSArray(array: [NSDecimalNumber(string: "0.1"), "a"])).propertyList as? [Any]
    #expect(prices?.first as? Double == 0.1)
  }

  @Test func foundationsClassesAreKept() throws {
    let date = NSDate(timeIntervalSinceReferenceDate: 812_345_678.125)
    #expect(try EncryptedValue(NSString(string: "Ana")).decoded(as: String.self) == "Ana")
    #expect(try EncryptedValue(NSNumber(value: 7)).decoded(as: Int64.self) == 7)
    #expect(try EncryptedValue(NSNumber(value: 2.5)).decoded(as: Float.self) == 2.5)
    #expect(try EncryptedValue(NSNumber(value: true)).decoded(as: Bool.self))
    #expect(try EncryptedValue(NSData(data: Data([1, 2]))).decoded(as: Data.self) == Data([1, 2]))
    #expect(try EncryptedValue(date).decoded(as: Date.self) == date as Date)
    #expect(try EncryptedValue(NSArray(array: ["a", "b"])).decoded(as: [String].self) == ["a", "b"])
    #expect(try EncryptedValue(NSDictionary(dictionary: ["a": 1])).decoded(as: [String: Int].self) == ["a": 1])
    // Of several types.
    let mixed = try #require(EncryptedValue(["a", 1, ["b": Data()]] as [Any]).propertyList as? [Any])
    #expect(mixed.first as? String == "a" && mixed[1] as? Int == 1 && mixed[2] as? [String: Data] == ["b": Data()])
  }

  /// What `as?` finds, as with CloudKit's `encryptedValues`.
  @Test func casts() throws {
    func found(_ value: Any) throws -> Any { try EncryptedValue(value).propertyList }
    #expect(try found("Ana") as? String == "Ana")
    #expect(try found("Ana") as? NSString == NSString(string: "Ana"))
    #expect(try found("Ana") as? Int == nil)
    #expect(try found(7) as? Int == 7)
    #expect(try found(Int64(7)) as? Int64 == 7)
    #expect(try found(7) as? Double == 7)
    #expect(try found(7) as? NSNumber == 7)
    #expect(try found(300) as? Int8 == nil)
    #expect(try found(2.5) as? Float == 2.5)
    #expect(try found(2.5) as? Int == nil)
    #expect(try found(true) as? Bool == true)
    #expect(try found(Data([1])) as? Data == Data([1]))
    #expect(try found(Data([1])) as? NSData == NSData(data: Data([1])))
    #expect(try found(Date(timeIntervalSince1970: 1)) as? Date == Date(timeIntervalSince1970: 1))
    #expect(try found(["a", "b"]) as? [String] == ["a", "b"])
    #expect(try found([1, 2]) as? [Int64] == [1, 2])
    #expect(try found(["a": 1]) as? [String: Int] == ["a": 1])
    #expect(try found(NSArray(array: ["a"])) as? NSArray == NSArray(array: ["a"]))
    let identifier = UUID()
    #expect(try found(identifier) as? String == identifier.uuidString)
    #expect(try found(try #require(URL(string: "https://example.org"))) as? String == "https://example.org")
  }

  @Test func otherTypesAreNotTaken() throws {
    func isRefused<Value: Decodable>(_ value: Any, as type: Value.Type) -> Bool {
      (try? EncryptedValue(value).decoded(as: type)) == nil
    }
    #expect(isRefused("Ana", as: Int.self) && isRefused("Ana", as: Date.self) && isRefused("Ana", as: Data.self))
    #expect(isRefused("Ana", as: UUID.self) && isRefused("Ana", as: [String].self) && isRefused("Ana", as: Colour.self))
    #expect(isRefused(1, as: Bool.self) && isRefused(1, as: String.self) && isRefused(1, as: [Int].self))
    #expect(isRefused(true, as: Int.self) && isRefused(true, as: Double.self) && isRefused([true], as: [Int].self))
    #expect(isRefused(2.0, as: Int.self) && isRefused(2.5, as: Int64.self) && isRefused([2.5], as: [Int].self))
    #expect(isRefused(300, as: Int8.self) && isRefused(-1, as: UInt.self))
    #expect(isRefused(Data(), as: String.self) && isRefused(["a": "b"], as: Address.self))
  }

  @Test func whatIsNoPropertyListIsNotStored() {
    struct Opaque {}
    for value in [Opaque(), NSNull(), NSObject(), [Opaque()], ["a": NSNull()], Int.self] as [Any] {
      #expect(throws: EncodingError.self) { try EncryptedValue(value) }
    }
  }

  /// The bytes that version 0.1.0 stores; it reads what is stored now, as these are the same.
  @Test func valuesOfTheFirstVersion() throws {
    let date = Date(timeIntervalSinceReferenceDate: 812_345_678.125)
    try expect("YnBsaXN0MDBlAEcAcgD8AN8AZQgAAAAAAAABAQAAAAAAAAABAAAAAAAAAAAAAAAAAAAAEw==", "Grüße")
    try expect("YnBsaXN0MDBDAAH/CAAAAAAAAAEBAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAM", Data([0, 1, 255]))
    try expect("YnBsaXN0MDAzQcg1tKcQAAAIAAAAAAAAAQEAAAAAAAAAAQAAAAAAAAAAAAAAAAAAABE=", date)
    try expect("YnBsaXN0MDAT//////////kIAAAAAAAAAQEAAAAAAAAAAQAAAAAAAAAAAAAAAAAAABE=", -7)
    try expect("YnBsaXN0MDAjQAQAAAAAAAAIAAAAAAAAAQEAAAAAAAAAAQAAAAAAAAAAAAAAAAAAABE=", 2.5)
    try expect("YnBsaXN0MDAJCAAAAAAAAAEBAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAJ", true)
    try expect("YnBsaXN0MDCiAQJRYVFiCAsNAAAAAAAAAQEAAAAAAAAAAwAAAAAAAAAAAAAAAAAAAA8=", ["a", "b"])
    try expect(
      "YnBsaXN0MDCiAQSiAgMQARACoQUQAwgLDhASFAAAAAAAAAEBAAAAAAAAAAYAAAAAAAAAAAAAAAAAAAAW", [[1, 2], [3]])
    try expect("YnBsaXN0MDATf/////////8IAAAAAAAAAQEAAAAAAAAAAQAAAAAAAAAAAAAAAAAAABE=", Int.max)
    try expect("YnBsaXN0MDAjQAAAAAAAAAAIAAAAAAAAAQEAAAAAAAAAAQAAAAAAAAAAAAAAAAAAABE=", 2.0)
    try expect("YnBsaXN0MDChAUEJCAoAAAAAAAABAQAAAAAAAAACAAAAAAAAAAAAAAAAAAAADA==", [Data([9])])
  }

  private func expect<Value: Codable & Equatable>(_ bytes: String, _ value: Value) throws {
    let stored = Array(try #require(Data(base64Encoded: bytes)))
    #expect(try EncryptedValue(bytes: stored).decoded(as: Value.self) == value)
    #expect(EncryptedValue(bytes: stored).propertyList as? Value == value)
    #expect(try EncryptedValue(value).bytes == stored)
  }

  /// What other programs set is text, or data.
  @Test func valuesOfOthers() throws {
    #expect(try EncryptedValue(bytes: Array("by hand".utf8)).decoded(as: String.self) == "by hand")
    #expect(EncryptedValue(bytes: Array("by hand".utf8)).propertyList as? String == "by hand")
    #expect(try EncryptedValue(bytes: Array("blue".utf8)).decoded(as: Colour.self) == .blue)
    #expect(try EncryptedValue(bytes: [0xFF, 0xFE]).decoded(as: Data.self) == Data([0xFF, 0xFE]))
    #expect(try EncryptedValue(bytes: []).decoded(as: String.self).isEmpty)
    let damaged = Array("bplist00 and no more".utf8)
    #expect(try EncryptedValue(bytes: damaged).decoded(as: String.self) == "bplist00 and no more")
  }
}
