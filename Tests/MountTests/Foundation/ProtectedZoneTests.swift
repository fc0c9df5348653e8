import DataProtection
import Foundation
import ProtectfsIO
import SystemPackage
import Testing

extension MountTests {
  /// Zones and records beside other programs, after errors, and with files that are none of theirs.
  @Suite struct ProtectedZoneTests {
    private static func makeZone(_ volume: Volume) throws -> ProtectedZone {
      let zone = ProtectedZone(at: volume.url("Letters"))
      try zone.create(protection: .complete)
      return zone
    }

    private static func save(_ name: String, _ author: String, in zone: ProtectedZone) throws {
      let record = ProtectedRecord(named: name)
      record.encryptedValues["author"] = author
      try zone.save(record)
    }

    private static func author(_ name: String, in zone: ProtectedZone) throws -> String? {
      try zone.record(named: name).encryptedValues["author"] as? String
    }

    private static func erase(_ protectionClass: ProtectionClass, _ volume: Volume) throws {
      let erased = try volume.command(
        "erase", "--class", protectionClass.name, "--yes", "--passcode-file", volume.passcodeFile.description)
      try #require(erased.succeeded, "\(erased.output)")
    }

    private static func isReset(_ error: (any Error)?) -> Bool {
      (error as? ProtectedRecordError)?.userInfo[ProtectedRecordError.userDidResetEncryptedDataKey] != nil
    }

    /// The others can be read, so nothing may tell a program to delete the zone.
    @Test func oneRevokedRecordIsNoReset() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        for name in ["card", "letter"] { try Self.save(name, "Ana", in: zone) }
        let fields = try zone.directory(of: "letter").appendingPathComponent("fields")
        try ProtectionClass.completeUnlessOpen.assign(toItemAt: fields.path)
        try Self.erase(.completeUnlessOpen, volume)
        let calls: [() throws -> Void] = [
          { _ = try zone.record(named: "letter") }, { try Self.save("letter", "Bea", in: zone) },
        ]
        for call in calls {
          let error = #expect(throws: CocoaError.self) { try call() }
          #expect(error.flatMap { ProtectedDataError(diagnosing: $0)?.reason } == .keyRevoked)
        }
        #expect(try Self.author("card", in: zone) == "Ana")
        try FileManager.default.removeItem(at: zone.directory(of: "letter"))
        try Self.save("letter", "Bea", in: zone)
        #expect(try Self.author("letter", in: zone) == "Bea")
      }
    }

    @Test func theClassIsTheOneThatWasAskedFor() throws {
      try Volume.with { volume in
        // A directory that is no zone.
        try volume.path("Letters").makeDirectory()
        let zone = try Self.makeZone(volume)
        try Self.save("letter", "Ana", in: zone)
        for name in ["Letters", "Letters/.zone", "Letters/letter/fields"] {
          #expect(try ProtectionClass(ofItemAt: volume.path(name).description) == .complete, "\(name)")
        }
        #expect(cocoaCode { try zone.create(protection: .completeUnlessOpen) } == .fileWriteFileExists)
        try zone.create(protection: .complete)
        #expect(try Self.author("letter", in: zone) == "Ana")
      }
    }

    @Test func recordsThatAreSavedAtOnceKeepAllFields() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        let url = zone.url
        for round in 0..<5 {
          DispatchQueue.concurrentPerform(iterations: 8) { number in
            let record = ProtectedRecord(named: "letter\(round)")
            record.encryptedValues["field\(number)"] = number
            #expect(throws: Never.self) { try ProtectedZone(at: url).save(record) }
          }
          let fields = try zone.record(named: "letter\(round)").encryptedValues.allKeys()
          #expect(fields == (0..<8).map { "field\($0)" })
        }
      }
    }

    /// What can be read stays, and nothing goes before there is a new zone, which is left alone afterwards.
    @Test func aResetIsAnsweredOnce() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        for name in ["card", "letter"] { try Self.save(name, "Ana", in: zone) }
        try Data("text".utf8).write(to: volume.url("Letters/letter/readable"), options: .noFileProtection)
        try Self.erase(.complete, volume)
        try volume.lock()
        #expect(Self.isReset(#expect(throws: (any Error).self) { try Self.save("letter", "Bea", in: zone) }))
        #expect(cocoaCode { try zone.recreateAfterReset() } == .fileWriteNoPermission)
        #expect(try volume.names("Letters") == [".zone", "card", "letter"])
        try volume.unlock()
        #expect(Self.isReset(#expect(throws: (any Error).self) { try Self.save("letter", "Bea", in: zone) }))
        try zone.recreateAfterReset()
        #expect(try volume.names("Letters") == [".zone", "letter"])
        #expect(try Data(contentsOf: volume.url("Letters/letter/readable")) == Data("text".utf8))
        #expect(try zone.recordNames().isEmpty)
        try Self.save("letter", "Bea", in: zone)
        // Another program that saw the reset too.
        try ProtectedZone(at: zone.url).recreateAfterReset()
        #expect(try Self.author("letter", in: zone) == "Bea")
        for name in ["Letters", "Letters/.zone", "Letters/letter/fields"] {
          #expect(try ProtectionClass(ofItemAt: volume.path(name).description) == .complete, "\(name)")
        }
      }
    }

    /// Also while locked, and with nothing left beside it.
    @Test func aDeletedZoneIsGone() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        for name in ["card", "letter"] { try Self.save(name, "Ana", in: zone) }
        try volume.lock()
        try zone.delete()
        #expect(try volume.names("").isEmpty)
        #expect(cocoaCode { try zone.delete() } == .fileNoSuchFile)
        #expect(throws: ProtectedRecordError.self) { try zone.recreateAfterReset() }
      }
    }

    /// A file that is no record's fields is neither replaced nor read.
    @Test func fieldsOfOthersAreLeftAlone() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        try Data("text".utf8).write(to: volume.url("elsewhere"))
        for name in ["link", "asset", "directory"] { try volume.path("Letters/\(name)").makeDirectory() }
        try volume.path("Letters/link/fields").makeSymbolicLink(to: "../../elsewhere")
        try Data("text".utf8).write(to: volume.url("Letters/asset/fields"))
        try volume.path("Letters/directory/fields").makeDirectory()
        for name in ["link", "asset", "directory"] {
          #expect(cocoaCode { try Self.save(name, "Ana", in: zone) } == .fileWriteFileExists, "\(name)")
        }
        #expect(try Data(contentsOf: volume.url("Letters/asset/fields")) == Data("text".utf8))
        #expect(try volume.names("Letters/link") == ["fields"])
        for name in ["link", "asset", "directory"] {
          #expect(throws: ProtectedRecordError.self, "\(name)") { try zone.record(named: name) }
        }
        #expect(try zone.recordNames().isEmpty)
      }
    }

    /// Below the mount point of an app that is not mounted there is nothing, which is no deletion.
    @Test func whatIsNotMountedIsNotDeleted() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        try volume.unmount()
        for call in [{ _ = try zone.recordNames() }, { try Self.save("letter", "Ana", in: zone) }] {
          #expect(cocoaCode(of: call) == .featureUnsupported)
        }
        try volume.mount()
        try volume.unlock()
        #expect(try zone.recordNames().isEmpty)
      }
    }

    @Test func errorsNameTheRecord() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        try Self.save("letter", "Ana", in: zone)
        let large = ProtectedRecord(named: "letter")
        large.encryptedValues["picture"] = Data(count: 100_000)
        let fields = try zone.directory(of: "letter").appendingPathComponent("fields").path
        let error = #expect(throws: CocoaError.self) { try zone.save(large) }
        #expect(error?.filePath == fields && error?.url?.path == fields)
        #expect(error?.localizedDescription.contains(" of \(fields) has 100") == true)
      }
    }

    /// The composed and the decomposed spelling are one key of Swift's, and stay one field.
    @Test func aFieldKeepsItsSpelling() throws {
      try Volume.with { volume in
        let zone = try Self.makeZone(volume)
        let (composed, decomposed) = ("stra\u{DF}e \u{E9}", "stra\u{DF}e e\u{301}")
        let record = ProtectedRecord(named: "letter")
        record.encryptedValues[decomposed] = 1
        try zone.save(record)
        let other = ProtectedRecord(named: "letter")
        other.encryptedValues[composed] = 2
        try zone.save(other)
        #expect(try zone.record(named: "letter").encryptedValues[composed] as? Int == 2)
        let keys = try zone.directory(of: "letter").appendingPathComponent("fields").encryptedValues.allKeys()
        #expect(keys.map { Array($0.utf8) } == [Array(decomposed.utf8)])
        other.encryptedValues[composed] = nil
        try zone.save(other)
        #expect(try zone.record(named: "letter").encryptedValues.allKeys().isEmpty)
      }
    }
  }
}
