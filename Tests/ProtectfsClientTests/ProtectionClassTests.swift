import FoundationEssentials
import ProtectfsPolicy
import Testing

private let names: [(ProtectionClass, UInt8, String, String, String)] = [
  (.complete, 1, "complete", "A", "NSFileProtectionComplete"),
  (.completeUnlessOpen, 2, "completeUnlessOpen", "B", "NSFileProtectionCompleteUnlessOpen"),
  (
    .completeUntilFirstUserAuthentication, 3, "completeUntilFirstUserAuthentication", "C",
    "NSFileProtectionCompleteUntilFirstUserAuthentication"
  ),
  (.none, 4, "none", "D", "NSFileProtectionNone"),
  (.completeWhenUserInactive, 7, "completeWhenUserInactive", "CX", "NSFileProtectionCompleteWhenUserInactive"),
]

@Suite struct ProtectionClassTests {
  @Test func namesAndNumbersAreThoseOfIOS() {
    #expect(names.map(\.0) == ProtectionClass.allCases)
    for (fileClass, number, name, letter, constant) in names {
      #expect(fileClass.rawValue == number)
      #expect(fileClass.name == name)
      #expect(fileClass.letter == letter)
      #expect(fileClass.foundationName == constant)
      for text in [name, letter, constant] { #expect(ProtectionClass(name: text) == fileClass) }
    }
  }

  @Test(arguments: ["", "a", "E", "Complete", "complete ", "NSFileProtection", "complete\0", "5"])
  func otherNamesAreNone(_ name: String) {
    #expect(ProtectionClass(name: name) == nil)
  }

  @Test func codedAsItsName() throws {
    for fileClass in ProtectionClass.allCases {
      let data = try JSONEncoder().encode([fileClass])
      #expect(String(decoding: data, as: UTF8.self) == "[\"\(fileClass.name)\"]")
      #expect(try JSONDecoder().decode([ProtectionClass].self, from: data) == [fileClass])
    }
    #expect(throws: DecodingError.self) {
      try JSONDecoder().decode([ProtectionClass].self, from: Data("[\"E\"]".utf8))
    }
  }
}
