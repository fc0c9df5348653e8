import Foundation
import ProtectfsIO
import Testing

@Suite struct PowerSupplyTests {
  /// Makes supplies of these attributes, and returns whether a battery is being discharged.
  private static func isBattery(_ supplies: [[String: String]]) throws -> Bool {
    let directory = FileManager.default.temporaryDirectory.appending(path: "protectfs-power.\(UUID())")
    defer { try? FileManager.default.removeItem(at: directory) }
    for (number, attributes) in supplies.enumerated() {
      let supply = directory.appending(path: "\(number)")
      try FileManager.default.createDirectory(at: supply, withIntermediateDirectories: true)
      for (name, value) in attributes { try Data("\(value)\n".utf8).write(to: supply.appending(path: name)) }
    }
    return PowerSupply.isBattery(in: directory.path)
  }

  private static let mains = ["type": "Mains", "online": "0"]
  private static let discharging = ["type": "Battery", "status": "Discharging"]

  @Test func aBatteryThatIsDischargedCounts() throws {
    #expect(try Self.isBattery([Self.mains, Self.discharging]))
    #expect(try Self.isBattery([["type": "Battery", "status": "Full"], Self.discharging]))
  }

  @Test func nothingElseCounts() throws {
    #expect(try !Self.isBattery([]))
    #expect(try !Self.isBattery([Self.mains]))
    #expect(try !Self.isBattery([Self.mains, ["type": "Battery", "status": "Charging"]]))
    // That of a mouse.
    #expect(try !Self.isBattery([Self.discharging.merging(["scope": "Device"]) { $1 }]))
    #expect(try !Self.isBattery([["type": "Battery"]]))
  }
}
