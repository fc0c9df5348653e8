import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// Typed fields of files, encrypted under their keys.
  @Suite struct EncryptedValueTests {
    @Test func keepTheirTypes() throws {
      try Volume.with { volume in
        let url = volume.url("letter")
        try Data("text".utf8).write(to: url, options: .completeFileProtection)
        let fields = url.encryptedValues
        let date = Date(timeIntervalSinceReferenceDate: 812_345_678.125)
        try fields.set("Grüße", forKey: "author")
        try fields.set(Data([0, 1, 255]), forKey: "bytes")
        try fields.set(date, forKey: "date")
        try fields.set(-7, forKey: "number")
        try fields.set(2.5, forKey: "double")
        try fields.set(true, forKey: "flag")
        try fields.set(["a", "b"], forKey: "names")
        try fields.set([[1, 2], [3]], forKey: "numbers")
        let author: String? = try fields["author"]
        #expect(author == "Grüße")
        #expect(try fields.value(forKey: "bytes") == Data([0, 1, 255]))
        #expect(try fields.value(forKey: "date") == date)
        #expect(try fields.value(forKey: "number") == -7)
        #expect(try fields.value(forKey: "double") == 2.5)
        #expect(try fields.value(forKey: "flag") == true)
        #expect(try fields.value(forKey: "names") == ["a", "b"])
        #expect(try fields.value(forKey: "numbers") == [[1, 2], [3]])
        #expect(try fields.value(forKey: "nothing", as: String.self) == nil)
        #expect(cocoaCode { _ = try fields.value(forKey: "author", as: Date.self) } == .fileReadCorruptFile)
        #expect(cocoaCode { _ = try fields.value(forKey: "number", as: [Int].self) } == .fileReadCorruptFile)

        // A number is not a Boolean, and a fraction is not an integer.
        try fields.set(1, forKey: "one")
        try fields.set(2.0, forKey: "two")
        for wrong in [
          { _ = try fields.value(forKey: "one", as: Bool.self) }, { _ = try fields.value(forKey: "two", as: Int.self) },
          { _ = try fields.value(forKey: "flag", as: Int.self) },
          { _ = try fields.value(forKey: "flag", as: Double.self) },
        ] {
          #expect(cocoaCode(of: wrong) == .fileReadCorruptFile)
        }
        #expect(try fields.value(forKey: "one") == 1.0)
        #expect(try fields.value(forKey: "two") == 2.0)
        for key in ["one", "two"] { try fields.removeValue(forKey: key) }
        #expect(cocoaCode { try volume.url("missing").encryptedValues.set(1, forKey: "n") } == .fileNoSuchFile)

        let keys = ["author", "bytes", "date", "double", "flag", "names", "number", "numbers"]
        #expect(try fields.allKeys() == keys)
        try volume.lock()
        #expect(try fields.allKeys() == keys)
        #expect(cocoaCode { _ = try fields.value(forKey: "author", as: String.self) } == .fileReadNoPermission)
        #expect(cocoaCode { try fields.set("x", forKey: "author") } == .fileWriteNoPermission)
        try fields.removeValue(forKey: "bytes")
        try fields.removeValue(forKey: "bytes")
        try volume.unlock()
        #expect(try fields.value(forKey: "author") == "Grüße")
        #expect(try fields.allKeys() == keys.filter { $0 != "bytes" })
      }
    }

    /// Values as CloudKit's `encryptedValues` takes and returns them, and of types of the program's own.
    @Test func areThoseOfCloudKit() throws {
      struct Stamp: Codable, Equatable {
        var place: String
        var pages: [Int64]
      }
      try Volume.with { volume in
        let url = volume.url("letter")
        try Data("text".utf8).write(to: url, options: .completeFileProtection)
        let fields = url.encryptedValues
        try fields.set(NSString(string: "Ana"), forKey: "author")
        try fields.set(NSNumber(value: 7), forKey: "number")
        try fields.set(NSArray(array: ["a", 1]), forKey: "list")
        try fields.set(Stamp(place: "Bonn", pages: [1, .max]), forKey: "stamp")
        #expect(try fields["author"] as? String == "Ana")
        #expect(try fields["author"] as? NSString == NSString(string: "Ana"))
        #expect(try fields["number"] as? Int64 == 7)
        #expect(try fields["list"] as? [Any] != nil)
        #expect(try fields["stamp"] as? [String: Any] != nil)
        #expect(try fields["nothing"] as? String == nil)
        let stamp: Stamp? = try fields["stamp"]
        #expect(stamp == Stamp(place: "Bonn", pages: [1, .max]))
        // nil removes a field, as it does there.
        let nobody: String? = nil
        try fields.set(nobody, forKey: "author")
        #expect(try fields.allKeys() == ["list", "number", "stamp"])
        let nested: String?? = .some(nil)
        try fields.set("Ana", forKey: "author")
        try fields.set(nested, forKey: "author")
        #expect(try fields.allKeys() == ["list", "number", "stamp"])
        #expect(throws: EncodingError.self) { try fields.set(NSObject(), forKey: "number") }
        #expect(try fields["number"] as? Int == 7)
      }
    }

    /// Fields of a file that version 0.1.0 has set, and that it can read.
    @Test func fieldsOfTheFirstVersionAreRead() throws {
      let author = "YnBsaXN0MDBlAEcAcgD8AN8AZQgAAAAAAAABAQAAAAAAAAABAAAAAAAAAAAAAAAAAAAAEw=="
      let number = "YnBsaXN0MDAT//////////kIAAAAAAAAAQEAAAAAAAAAAQAAAAAAAAAAAAAAAAAAABE="
      try Volume.with { volume in
        let url = volume.url("letter")
        try Data("text".utf8).write(to: url, options: .completeFileProtection)
        for (key, bytes) in ["author": author, "number": number] {
          let stored = Array(try #require(Data(base64Encoded: bytes)))
          try PathName(url.path).setExtendedAttribute(PathName("user.\(key)"), to: stored)
        }
        #expect(try url.encryptedValues["author"] as? String == "Grüße")
        #expect(try url.encryptedValues.value(forKey: "number") == -7)
        try url.encryptedValues.set("Grüße", forKey: "again")
        #expect(try Data(PathName(url.path).extendedAttribute("user.again")).base64EncodedString() == author)
      }
    }

    /// What does not fit is said, however large it is, and changes nothing.
    @Test func thereIsALimit() throws {
      try Volume.with { volume in
        let url = volume.url("letter")
        try Data("text".utf8).write(to: url)
        try url.encryptedValues.set("Ana", forKey: "author")
        for size in [60_000, 70_000, 10_000_000] {
          do {
            try url.encryptedValues.set(Data(count: size), forKey: "author")
            Issue.record("\(size) bytes were stored")
          } catch let error as CocoaError {
            #expect(error.code == .fileWriteOutOfSpace, "\(size): \(error)")
            #expect(
              error.localizedDescription.hasPrefix("the field author of \(url.path) has \(size / 1000)"),
              "\(error.localizedDescription)")
          }
          #expect(try url.encryptedValues["author"] as? String == "Ana")
        }
      }
    }

    /// Values that other programs have set are text or data. They read values set here as property lists.
    @Test func othersAttributesAreFields() throws {
      try Volume.with { volume in
        let url = volume.url("file")
        try Data().write(to: url)
        try PathName(url.path).setExtendedAttribute("user.xdg.comment", to: Array("by hand".utf8))
        try PathName(url.path).setExtendedAttribute("user.raw", to: [0xFF, 0xFE])
        #expect(try url.encryptedValues.value(forKey: "xdg.comment") == "by hand")
        #expect(try url.encryptedValues.value(forKey: "raw") == Data([0xFF, 0xFE]))
        try url.encryptedValues.set("ours", forKey: "ours")
        #expect(try PathName(url.path).extendedAttribute("user.ours").starts(with: "bplist00".utf8))
        // The class is not a field.
        try ProtectionClass.complete.assign(toItemAt: url.path)
        #expect(try url.encryptedValues.allKeys() == ["ours", "raw", "xdg.comment"])
        for key in ["", "protectfs.class", "protectfs.state", "a\0b"] {
          #expect(cocoaCode { try url.encryptedValues.set("x", forKey: key) } != nil, "\(key)")
        }
        #expect(cocoaCode { try url.encryptedValues.set("x", forKey: String(repeating: "k", count: 251)) } != nil)
        #expect(cocoaCode { try url.encryptedValues.set(Data(count: 100_000), forKey: "large") } != nil)
        // Fields of a directory are encrypted under the volume's key.
        try volume.mountPoint.appending("d").makeDirectory(of: .complete)
        try volume.url("d").encryptedValues.set(1, forKey: "n")
        try volume.lock()
        #expect(try volume.url("d").encryptedValues.value(forKey: "n") == 1)
      }
    }

    @Test func elsewhereTheyAreRefused() throws {
      let directory = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(directory) }
      let url = URL(fileURLWithPath: directory.description)
      #expect(cocoaCode { try url.encryptedValues.set("x", forKey: "k") } == .featureUnsupported)
      #expect(cocoaCode { _ = try url.encryptedValues.allKeys() } == .featureUnsupported)
      #expect(try directory.extendedAttributeNames().isEmpty)
    }
  }
}
