import DataProtection
import Foundation
import ProtectfsIO
import Testing

/// The code of the `ProtectedRecordError` of a call, and whether it reports a reset; `nil` if it does not fail, or
/// fails otherwise.
private func recordError(of body: () throws -> Void) -> (code: ProtectedRecordError.Code, isReset: Bool)? {
  do {
    try body()
    return nil
  } catch {
    guard let error = error as? ProtectedRecordError else { return nil }
    return (error.code, error.userInfo[ProtectedRecordError.userDidResetEncryptedDataKey] != nil)
  }
}

extension MountTests {
  /// Records and zones: CloudKit's "Encrypting User Data", for files.
  @Suite struct ProtectedRecordTests {
    private static func makeZone(_ volume: Volume) throws -> ProtectedZone {
      let zone = ProtectedZone(at: volume.url("app/Letters"))
      try zone.create(protection: .complete)
      return zone
    }

    private static func save(_ name: String, _ author: String, in zone: ProtectedZone) throws {
      let record = ProtectedRecord(named: name)
      record.encryptedValues["author"] = author
      try zone.save(record)
    }

    private static func erase(_ volume: Volume) throws {
      let erased = try volume.command(
        "erase", "--class", "complete", "--yes", "--passcode-file", volume.passcodeFile.description)
      try #require(erased.succeeded, "\(erased.output)")
    }

    @Test func recordsAreSavedAndRead() throws {
      struct Stamp: Codable, Equatable { var place: String }
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        #expect(try zone.recordNames().isEmpty)
        let new = ProtectedRecord(named: "letter")
        new.encryptedValues["author"] = "Ana"
        new.encryptedValues["pages"] = Int64(12)
        new.encryptedValues.set(Stamp(place: "Bonn"), forKey: "stamp")
        new.encryptedValues["draft"] = NSNumber(value: true)
        try zone.save(new)
        #expect(try zone.recordNames() == ["letter"])

        let record = try zone.record(named: "letter")
        #expect(record.encryptedValues["author"] as? String == "Ana")
        #expect(record.encryptedValues["pages"] as? Int == 12)
        #expect(try record.encryptedValues.value(forKey: "stamp") == Stamp(place: "Bonn"))
        #expect(record.encryptedValues.allKeys() == ["author", "draft", "pages", "stamp"])
        #expect(record.encryptedValues["nothing"] == nil)
        let (pages, stamp): (Int?, Stamp?) = (record.encryptedValues["pages"], record.encryptedValues["stamp"])
        let wrong: Int? = record.encryptedValues["author"]
        #expect(pages == 12 && stamp == Stamp(place: "Bonn") && wrong == nil)
        #expect(record.encryptedValues.object(forKey: "author") as? String == "Ana")
        record.encryptedValues.setObject("Bea", forKey: "author")
        #expect(record.encryptedValues.changedKeys() == ["author"] && new.encryptedValues.changedKeys().isEmpty)

        // What has changed is saved; what somebody else has saved meanwhile stays.
        new.encryptedValues["pages"] = 13
        try zone.save(new)
        record.encryptedValues["draft"] = nil
        record.encryptedValues["author"] = "Bea"
        try zone.save(record)
        let both = try zone.record(named: "letter")
        #expect(both.encryptedValues["author"] as? String == "Bea" && both.encryptedValues["pages"] as? Int == 13)
        #expect(both.encryptedValues.allKeys() == ["author", "pages", "stamp"])
        #expect(try volume.names("app/Letters/letter") == ["fields"], "something was left behind")
      }
    }

    /// A record of the same name is another one, in another zone or after the first was deleted.
    @Test func anotherRecordOfTheNameGetsAllFields() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        let other = ProtectedZone(at: volume.url("app/Other"))
        try other.create(protection: .complete)
        func author(in zone: ProtectedZone) throws -> String? {
          try zone.record(named: "letter").encryptedValues["author"] as? String
        }
        try Self.save("letter", "Ana", in: zone)
        try Self.save("letter", "Cleo", in: other)
        let record = try zone.record(named: "letter")
        try other.save(record)
        #expect(try author(in: other) == "Ana")
        // It has been saved there, so that what others save afterwards stays.
        try Self.save("letter", "Cleo", in: other)
        try other.save(record)
        #expect(try author(in: other) == "Cleo")

        let cached = try zone.record(named: "letter")
        let directory = try zone.directory(of: "letter")
        for item in [directory, directory.appendingPathComponent("fields")] {
          try FileManager.default.removeItem(at: item)
          try Self.save("letter", "Bea", in: zone)
          try zone.save(cached)
          #expect(try author(in: zone) == "Ana")
        }
        // A copy of the zone, and a mount that is made again.
        try FileManager.default.removeItem(at: other.url)
        try FileManager.default.copyItem(at: zone.url, to: other.url)
        try Self.save("letter", "Bea", in: other)
        try other.save(cached)
        #expect(try author(in: other) == "Ana")
        try volume.unmount()
        try volume.mount()
        try volume.unlock()
        try Self.save("letter", "Bea", in: other)
        try other.save(cached)
        #expect(try author(in: other) == "Bea")
      }
    }

    /// What the subscript takes can be cast to what it was.
    @Test func whatDoesNotComeBackIsRefused() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        let url = try #require(URL(string: "https://example.com/a"))
        for value in [url, UUID(), [url], Decimal(1)] as [any Encodable] {
          let record = ProtectedRecord(named: "letter")
          record.encryptedValues["field"] = value
          #expect(cocoaCode { try zone.save(record) } == .coderInvalidValue, "\(value)")
          #expect(!volume.path("app/Letters/letter").exists)
        }
        let record = ProtectedRecord(named: "letter")
        record.encryptedValues.set(url, forKey: "url")
        record.encryptedValues["float"] = Float(0.1)
        record.encryptedValues["texts"] = ["a": ["b"]]
        try zone.save(record)
        let saved = try zone.record(named: "letter").encryptedValues
        #expect(try saved.value(forKey: "url") == url)
        #expect(saved["float"] as? Float == 0.1 && saved["texts"] as? [String: [String]] == ["a": ["b"]])
      }
    }

    /// A record that cannot be saved as a whole is not saved in part.
    @Test func nothingIsSavedInPart() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        try Self.save("letter", "Ana", in: zone)
        for value in [NSObject(), Data(count: 100_000)] as [Any] {
          let record = try zone.record(named: "letter")
          record.encryptedValues["author"] = "Bea"
          record.encryptedValues["zzz"] = value
          #expect(throws: (any Error).self) { try zone.save(record) }
          #expect(try zone.record(named: "letter").encryptedValues["author"] as? String == "Ana")
          #expect(try volume.names("app/Letters/letter") == ["fields"])
        }
        let large = ProtectedRecord(named: "large")
        large.encryptedValues["picture"] = Data(count: 100_000)
        #expect(cocoaCode { try zone.save(large) } == .fileWriteOutOfSpace)
        #expect(!volume.path("app/Letters/large").exists)
        for name in ["", ".", "..", "a/b", ".zone"] {
          #expect(throws: CocoaError.self, "\(name)") { try zone.save(ProtectedRecord(named: name)) }
        }
        // A key that is none is said as such, and leaves no directory.
        for key in ["", "a\0b", "protectfs.class", String(repeating: "k", count: 251)] {
          let record = ProtectedRecord(named: "card")
          record.encryptedValues[key] = "Ana"
          #expect(cocoaCode { try zone.save(record) } == .fileWriteInvalidFileName, "\(key)")
          #expect(cocoaCode { try zone.url.encryptedValues.set(1, forKey: key) } == .fileWriteInvalidFileName)
          #expect(cocoaCode { _ = try zone.url.encryptedValues[key] } == .fileReadInvalidFileName)
        }
        #expect(try volume.names("app/Letters") == [".zone", "letter"])
        let longest = try zone.record(named: "letter")
        longest.encryptedValues[String(repeating: "k", count: 250)] = 1
        try zone.save(longest)
        // No name leads out of the zone, or is that of something else.
        let other = ProtectedZone(at: volume.url("app/Other"))
        try other.create(protection: .complete)
        try Self.save("letter", "Cleo", in: other)
        let names = ["", ".", "..", "../Other/letter", "a/", "a\0b", ".zone", String(repeating: "a", count: 256)]
        for name in names + [".\(UUID().uuidString).staging"] {
          #expect(cocoaCode { try zone.save(ProtectedRecord(named: name)) } == .fileWriteInvalidFileName, "\(name)")
          #expect(cocoaCode { _ = try zone.record(named: name) } == .fileReadInvalidFileName, "\(name)")
          #expect(cocoaCode { _ = try zone.directory(of: name) } == .fileReadInvalidFileName, "\(name)")
        }
        // What is being written is no record. It is removed by hand, as it may be in progress for ten seconds.
        let staging = zone.url.appendingPathComponent(".\(UUID().uuidString).staging")
        try FileManager.default.createDirectory(at: staging, withIntermediateDirectories: false)
        try Data().write(to: staging.appendingPathComponent("fields"))
        #expect(try zone.recordNames() == ["letter"])
        try FileManager.default.removeItem(at: staging)
        #expect(recordError { _ = try zone.record(named: "missing") }?.code == .unknownItem)
        #expect(try volume.names("app/Letters") == [".zone", "letter"])
      }
    }

    /// Fields and assets are of the zone's class, and the manifest says that they are encrypted.
    @Test func fieldsAndAssetsAreLockedTogether() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        try Self.save("letter", "Ana", in: zone)
        let photo = try zone.directory(of: "letter").appendingPathComponent("photo.jpg")
        try Data("jpeg".utf8).write(to: photo)
        for name in ["letter", "letter/fields", "letter/photo.jpg"] {
          #expect(try ProtectionClass(ofItemAt: zone.url.appendingPathComponent(name).path) == .complete, "\(name)")
        }
        try volume.lock()
        let record = ProtectedRecord(named: "letter")
        record.encryptedValues["author"] = "Bea"
        #expect(cocoaCode { _ = try zone.record(named: "letter") } == .fileReadNoPermission)
        #expect(cocoaCode { try zone.save(record) } == .fileWriteNoPermission)
        #expect(cocoaCode { _ = try Data(contentsOf: photo) } == .fileReadNoPermission)
        #expect(try zone.recordNames() == ["letter"])
        let manifest = try Command.run(["manifest", "--json", zone.url.path])
        #expect(manifest.output.contains(#"{"isEncrypted":true,"name":"user.author"}"#), "\(manifest.output)")
        try volume.unlock()
        #expect(try zone.record(named: "letter").encryptedValues["author"] as? String == "Ana")
      }
    }

    /// After an erasure, everything that a program tries says that the zone has to be made anew.
    @Test func anErasureIsAResetOfTheZone() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        try Self.save("letter", "Ana", in: zone)
        let cached = try zone.record(named: "letter")
        try Self.erase(volume)
        let calls: [() throws -> Void] = [
          { _ = try zone.record(named: "letter") }, { _ = try zone.recordNames() },
          { try Self.save("letter", "Bea", in: zone) }, { try Self.save("card", "Bea", in: zone) },
          {
            try zone.create(protection: .complete); try Self.save("card", "Bea", in: zone)
          },
        ]
        for call in calls {
          let error = try #require(recordError(of: call))
          #expect(error.code == .zoneNotFound && error.isReset)
        }
        try zone.delete()
        // Without the entry: it does not exist, for whatever reason.
        for call in calls[..<4] {
          let error = try #require(recordError(of: call))
          #expect(error.code == .zoneNotFound && !error.isReset)
        }
        try zone.create(protection: .complete)
        // All of it, though nothing has changed since it was saved.
        try zone.save(cached)
        #expect(try zone.record(named: "letter").encryptedValues["author"] as? String == "Ana")
      }
    }

    @Test func errorsAreThoseOfNSError() throws {
      let error = ProtectedRecordError.Code.zoneNotFound
      #expect(error.rawValue == 26 && ProtectedRecordError.Code.unknownItem.rawValue == 11)
      try Volume.with { volume in
        let url = volume.url("app/nowhere")
        let error = #expect(throws: (any Error).self) { _ = try ProtectedZone(at: url).record(named: "letter") }
        let bridged = try #require(error) as NSError
        #expect(bridged.domain == ProtectedRecordError.errorDomain && bridged.code == 26)
        #expect(bridged.localizedDescription == "There is no zone \(url.path).")
      }
      // Where no mount is, a zone may be on one that is missing.
      #expect(
        cocoaCode { _ = try ProtectedZone(at: URL(fileURLWithPath: "/nowhere")).record(named: "letter") }
          == .featureUnsupported)
    }

    @Test func elsewhereThereAreNoZones() throws {
      let directory = try TemporaryDirectory.make()
      defer { TemporaryDirectory.remove(directory) }
      let zone = ProtectedZone(at: URL(fileURLWithPath: directory.appending("Letters").description))
      #expect(cocoaCode { try zone.create(protection: .complete) } == .featureUnsupported)
      #expect(try directory.names().isEmpty)
    }
  }
}
