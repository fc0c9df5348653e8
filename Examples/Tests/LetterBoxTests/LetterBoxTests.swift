import DataProtection
import Foundation
import LetterBox
import Mounting
import Testing

/// What a lock, an erasure and a person's own hand do to letters.
@Suite(.serialized, .enabled(if: Obstacle.found == nil, Obstacle.found))
struct LetterBoxTests {
  private static let letters = [
    "first": Letter(author: "Ana", date: Date(timeIntervalSince1970: 1), picture: Data("jpeg".utf8)),
    "second": Letter(author: "Bea", date: Date(timeIntervalSince1970: 2)),
  ]

  private static func fill(_ volume: Volume) throws -> (box: LetterBox, zone: URL) {
    let zone = volume.url("Letters")
    let box = LetterBox(directory: zone)
    try box.createZone()
    for (name, letter) in letters { #expect(try box.save(letter, as: name) == .saved) }
    return (box, zone)
  }

  /// What another start of the app would find.
  private static func expectLetters(_ letters: [String: Letter], in zone: URL) throws {
    let box = LetterBox(directory: zone)
    #expect(try box.names() == letters.keys.sorted())
    for (name, letter) in letters { #expect(try box.letter(name) == letter) }
  }

  @Test func locked() async throws {
    try await Volume.with { volume in
      let (box, zone) = try Self.fill(volume)
      try Self.expectLetters(Self.letters, in: zone)
      try volume.lock()
      #expect(throws: CocoaError.self) { try box.letter("first") }
      #expect(throws: CocoaError.self) { try box.save(Letter(author: "Eve", date: .now), as: "first") }
      try volume.unlock()
      try Self.expectLetters(Self.letters, in: zone)
    }
  }

  @Test func keysErased() async throws {
    try await Volume.with { volume in
      let (box, zone) = try Self.fill(volume)
      try volume.erase(.complete)
      let third = Letter(author: "Cem", date: Date(timeIntervalSince1970: 3))
      #expect(try box.save(third, as: "third") == .savedAgain(3))
      try Self.expectLetters(Self.letters.merging(["third": third]) { $1 }, in: zone)
      #expect(try box.save(third, as: "third") == .saved)
    }
  }

  /// The keys can go while a lock is on: nothing is deleted before a new zone can be filled.
  @Test func keysErasedWhileLocked() async throws {
    try await Volume.with { volume in
      let (box, zone) = try Self.fill(volume)
      try volume.erase(.complete)
      try volume.lock()
      let third = Letter(author: "Cem", date: Date(timeIntervalSince1970: 3))
      #expect(throws: CocoaError.self) { try box.save(third, as: "third") }
      try volume.unlock()
      #expect(try box.save(third, as: "third") == .savedAgain(3))
      try Self.expectLetters(Self.letters.merging(["third": third]) { $1 }, in: zone)
    }
  }

  /// A letter whose picture cannot be read is not taken for one without a picture.
  @Test func pictureCannotBeRead() async throws {
    try await Volume.with { volume in
      let (box, zone) = try Self.fill(volume)
      let picture = zone.appendingPathComponent("first/picture.jpg")
      try FileManager.default.setProtection(.completeUnlessOpen, ofItemAt: picture)
      try volume.erase(.completeUnlessOpen)
      #expect(throws: CocoaError.self) { try box.letter("first") }
      try FileManager.default.removeItem(at: picture)
      try volume.erase(.complete)
      #expect(try box.save(try #require(Self.letters["second"]), as: "second") == .savedAgain(2))
      try Self.expectLetters(Self.letters, in: zone)
    }
  }

  @Test func zoneDeleted() async throws {
    try await Volume.with { volume in
      let (box, zone) = try Self.fill(volume)
      try FileManager.default.removeItem(at: zone)
      let third = Letter(author: "Cem", date: Date(timeIntervalSince1970: 3))
      #expect(try box.save(third, as: "third") == .zoneDeleted)
      #expect(!FileManager.default.fileExists(atPath: zone.path))
      // The person wants it back.
      try box.createZone()
      try Self.expectLetters(Self.letters.merging(["third": third]) { $1 }, in: zone)
    }
  }
}
