import Testing

@testable import protectfs

struct MachineChecksTests {
  /// Compressed memory is a swap on the device behind it, where there is one.
  @Test func swapPaths() {
    let lines: [Substring] = [
      "/dev/sda2                               partition\t8388604\t0\t-2", "/dev/zram0 partition\t4\t0\t100",
      "/dev/zram1 partition\t4\t0\t100", "/dev/zram2 partition\t4\t0\t100", "/swap file\t4\t0\t-3",
    ]
    let paths = MachineChecks.swapPaths(lines) { ["zram0": "none", "zram1": "/dev/sdb1"][$0] }
    #expect(paths == ["/dev/sda2", "/dev/sdb1", "/swap"])
  }

  /// Where the memory of a program that crashes is kept, it is named.
  @Test(arguments: [
    ("core", "0", false, nil), ("core", "unlimited", false, "files 'core'"), ("", "unlimited", false, nil),
    ("|/bin/false", "unlimited", false, nil),
    ("|/usr/lib/systemd/systemd-coredump %P %u", "unlimited", false, "/usr/lib/systemd/systemd-coredump keeps it"),
    ("|/usr/lib/systemd/systemd-coredump %P %u", "unlimited", true, nil),
    ("|/usr/lib/systemd/systemd-coredump %P %u %c", "0", false, nil),
    (
      "|/usr/lib/systemd/systemd-coredump %P 9223372036854775808", "0", false,
      "/usr/lib/systemd/systemd-coredump keeps it"
    ),
    ("|/usr/share/apport/apport -p%p", "0", true, "/usr/share/apport/apport keeps it"),
  ])
  func coreDumps(_ pattern: String, _ limit: String, _ storesNone: Bool, _ words: String?) {
    let found = MachineChecks.coreDumps(pattern: pattern, limit: limit, storesNone: storesNone)
    #expect(found.grade == (words == nil ? .good : .hint))
    #expect(found.state.hasSuffix(words ?? "none are kept"), "\(found.state)")
  }
}
