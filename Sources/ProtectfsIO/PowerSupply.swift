import SystemPackage

/// Where the machine's power comes from (Documentation/ABI/testing/sysfs-class-power in the kernel's sources).
package enum PowerSupply {
  /// Whether a battery of the machine is being discharged. `directory` has an entry for each supply.
  package static func isBattery(in directory: String = "/sys/class/power_supply") -> Bool {
    let names = try? PathName(directory).names(limit: 1 << 16)
    return (names ?? []).contains { name in
      func value(_ attribute: String) -> String? { PathName("\(directory)/\(name)/\(attribute)").firstLine }
      // A scope: the battery of a mouse, say.
      return value("type") == "Battery" && value("scope") != "Device" && value("status") == "Discharging"
    }
  }
}
