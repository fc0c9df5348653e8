import Foundation
import ProtectfsIO
import StoreCheck
import SystemPackage
import TestVectors
import Testing

/// Several random defects at once. A check survives them, a repair loses nothing, and no error that a repair could fix
/// remains.
@Suite struct RandomDamageTests {
  @Test(arguments: 1...24 as ClosedRange<UInt64>) func repairedOnceIsRepaired(_ seed: UInt64) throws {
    var random = RepeatableGenerator(seed: seed)
    let store = try BuiltStore()
    try store.fill()
    for _ in 0..<8 { try damage(store, &random) }
    let before = try store.contents()
    let findings = try store.check(isRepairing: true).findings
    let left = findings.filter { !$0.isRepaired && $0.defect.severity == .error }
    #expect(left.allSatisfy { $0.defect == .recordVersionUnknown || $0.path == "/" }, "\(left)")
    let after = try store.contents()
    for (path, content) in before where !path.hasSuffix(".name") && !path.contains("/keybag") {
      let isKept = after.values.contains { $0.inode == content.inode && $0.bytes == content.bytes }
      #expect(isKept, "\(path) is gone")
    }
    let again = try store.check().findings.filter { $0.defect.severity == .error }
    #expect(again.map(\.backingPath) == left.map(\.backingPath), "\(again)")
  }

  private func damage(_ store: BuiltStore, _ random: inout RepeatableGenerator) throws {
    let places = try store.contents().keys.sorted().filter { !$0.hasPrefix("/.protectfs") }
    let place = places.randomElement(using: &random) ?? ""
    let path = store.path + place
    let names = (try? PathName(path).attributeNames().filter { $0.description.hasPrefix("user.") }) ?? []
    switch Int.random(in: 0..<7, using: &random) {
    case 0:
      guard let name = names.randomElement(using: &random) else { return }
      var value = try PathName(path).attribute(name)
      guard !value.isEmpty else { return }
      value[Int.random(in: value.indices, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
      try PathName(path).setAttribute(name, to: value)
    case 1:
      guard let name = names.randomElement(using: &random) else { return }
      try PathName(path).removeAttribute(name)
    case 2:
      guard let name = names.randomElement(using: &random) else { return }
      let value = try PathName(path).attribute(name)
      try PathName(path).setAttribute(name, to: Array(value.prefix(Int.random(in: 0...70, using: &random))))
    case 3 where !place.hasSuffix("-"):
      try FileManager.default.moveItem(atPath: path, toPath: path.dropLast() + "-")
    case 4:
      let other = places.randomElement(using: &random) ?? ""
      let target = "/" + (other.split(separator: "/").last ?? "x")
      guard target != place, !places.contains(target) else { return }
      try FileManager.default.moveItem(atPath: path, toPath: store.path + target)
    case 5:
      guard place.hasSuffix(".name") else { return }
      try store.remove(place)
    default:
      guard let file = try? Descriptor.open(PathName(path), [.writeOnly, .nonBlocking]) else { return }
      try? file.truncate(to: UInt64.random(in: 0...20, using: &random))
    }
  }
}
