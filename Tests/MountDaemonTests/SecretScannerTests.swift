import TestVectors
import Testing

@testable import MountDaemon

/// What is read from a message, and what remains of it.
private struct Scanned: Equatable {
  var passcode: String?
  var recoveryKey: String?
  var newPasscode: String?
  var rest: String
}

private func scan(_ message: [UInt8]) throws(MessageError) -> Scanned {
  let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(message.count, 1), alignment: 1)
  defer { unsafe buffer.deallocate() }
  unsafe buffer.copyBytes(from: message)
  let used = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<message.count])
  var secrets = try unsafe SecretScanner.takeSecrets(from: used)
  return unsafe Scanned(
    passcode: secrets.old.passcode.take()?.text, recoveryKey: secrets.old.recoveryKey.take()?.text,
    newPasscode: secrets.new.passcode.take()?.text, rest: String(decoding: used, as: UTF8.self))
}

private func call(_ parameters: String) -> String { #"{"method":"m","parameters":{\#(parameters)}}"# }

@Suite struct SecretScannerTests {
  @Test func takesEachSecret() throws {
    let text = call(#""passcode":"abc","recoveryKey" : "de", "newPasscode":"f", "wait":true"#)
    #expect(
      try scan(Array(text.utf8))
        == Scanned(
          passcode: "abc", recoveryKey: "de", newPasscode: "f",
          rest: call(#""passcode":"***","recoveryKey" : "**", "newPasscode":"*", "wait":true"#)))
  }

  @Test(arguments: [
    (#"a\"b\\c\/d"#, #"a"b\c/d"#), (#"\b\f\n\r\t"#, "\u{8}\u{C}\n\r\t"), (#"\u00e9"#, "é"), (#"\u0000x"#, "\0x"),
    (#"\ud83d\uDE00"#, "😀"), ("ünïcödé 😀", "ünïcödé 😀"), ("", ""), (#"\u20AC"#, "€"), ("}]{[,:", "}]{[,:"),
  ])
  func decodesStrings(_ escaped: String, _ value: String) throws {
    let scanned = try scan(Array(call(#""passcode":"\#(escaped)""#).utf8))
    #expect(scanned.passcode == value)
    let blank = String(repeating: "*", count: escaped.utf8.count)
    #expect(scanned.rest == call(#""passcode":"\#(blank)""#))
  }

  @Test func findsEscapedNames() throws {
    let scanned = try scan(Array(call(#""p\u0061sscode":"abc""#).utf8))
    #expect(scanned.passcode == "abc")
    #expect(!scanned.rest.contains("abc"))
    let inParameters = #"{"\u0070arameters":{"passcode":"abc"}}"#
    #expect(try scan(Array(inParameters.utf8)).passcode == "abc")
  }

  @Test(arguments: [
    #"{"passcode":"abc"}"#, #"{"a":{"passcode":"abc"}}"#, #"{"a":[{"passcode":"abc"}]}"#,
    #"{"parameters":{"a":{"passcode":"abc"}}}"#, #"{"parameters":[{"passcode":"abc"}]}"#,
  ])
  func overwritesSecretsElsewhereAndTakesNone(_ text: String) throws {
    let scanned = try scan(Array(text.utf8))
    #expect(scanned.passcode == nil)
    #expect(!scanned.rest.contains("abc"))
  }

  @Test(arguments: ["passcodes", "passcod", "Passcode", "passcode ", "asscode", "p\u{1F600}"])
  func leavesOtherNames(_ name: String) throws {
    let text = call(#""\#(name)":"abc""#)
    #expect(try scan(Array(text.utf8)) == Scanned(rest: text))
  }

  @Test(arguments: ["null", "1", "true", "[1,2]", #"{"x":"y"}"#])
  func takesStringsOnly(_ value: String) throws {
    let text = call(#""passcode":\#(value)"#)
    #expect(try scan(Array(text.utf8)) == Scanned(rest: text))
  }

  @Test(arguments: [
    "", " ", "{", "}", "[]", "1", "null", #""text""#, #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{"a":1}x"#, #"{a:1}"#,
    #"{"a":"b}"#, #"{"a":"\x"}"#, #"{"a":"\u12"}"#, #"{"a":"\ud800"}"#, #"{"a":"\udc00"}"#, #"{"a":"\ud800\u0041"}"#,
    #"{"a":"\"#, #"{"a":[1 2]}"#, #"{"a":[1,]}"#, "{\"a\":\"\n\"}", #"{"a":1}{"b":2}"#, #"{"a" 1}"#, #"{,}"#,
    #"{"parameters":{"passcode":"a","passcode":"b"}}"#, #"{"parameters":{"passcode":"\ud800"}}"#,
  ])
  func refusesWhatIsNoObject(_ text: String) {
    #expect(throws: MessageError.malformed) { try scan(Array(text.utf8)) }
  }

  @Test func refusesWhatIsNotUTF8() {
    #expect(throws: MessageError.malformed) { try scan(Array(#"{"a":""#.utf8) + [0xFF] + Array(#""}"#.utf8)) }
    #expect(throws: MessageError.malformed) { try scan(Array(#"{"a":""#.utf8) + [0xC0, 0x80] + Array(#""}"#.utf8)) }
  }

  @Test func boundsTheDepth() throws {
    func nested(_ depth: Int) -> [UInt8] {
      Array((String(repeating: #"{"a":"#, count: depth) + "1" + String(repeating: "}", count: depth)).utf8)
    }
    _ = try scan(nested(SecretScanner.deepest))
    #expect(throws: MessageError.tooDeep) { try scan(nested(SecretScanner.deepest + 1)) }
    #expect(throws: MessageError.tooDeep) { try scan(Array((#"{"a":"# + String(repeating: "[", count: 60_000)).utf8)) }
  }

  /// Changes a correct call in every way that one byte allows, and cuts it at every place. There is never a crash, and
  /// a passcode that was read never remains in the message.
  @Test func survivesMutations() {
    let good = Array(
      call(#""passcode":"ab\u00e9\n12","newPasscode":"x\ud83d\ude00", "n":-1.5e3, "l":[{},[],null]"#).utf8)
    for end in good.indices { _ = try? scan(Array(good[..<end])) }
    for index in good.indices {
      for byte in UInt8.min...UInt8.max {
        var changed = good
        changed[index] = byte
        guard let scanned = try? scan(changed) else { continue }
        if scanned.passcode != nil { #expect(!scanned.rest.contains(#"\n12"#)) }
      }
    }
  }

  @Test func survivesNoise() {
    var generator = RepeatableGenerator(seed: 1)
    let alphabet = Array(#"{}[]":,\u0passcode parameters newPasscode 19-ed\ud8\n"#.utf8) + [0, 0x1F, 0x80, 0xC3, 0xFF]
    for _ in 0..<20_000 {
      let length = Int(generator.next() % 64)
      let noise = (0..<length).map { _ in alphabet[Int(generator.next() % UInt64(alphabet.count))] }
      _ = try? scan(Array(#"{"parameters":{"#.utf8) + noise)
    }
  }
}
