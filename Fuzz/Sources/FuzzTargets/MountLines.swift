@testable import ProtectfsClient
@testable import ProtectfsPolicy

/// A line of the kernel's; and one made of the bytes, as the kernel would write a mount at such a path.
func fuzzMountLines(_ bytes: [UInt8]) {
  if let mount = MountedFileSystem(line: bytes[...]) {
    precondition(!mount.identifier.isEmpty && !mount.device.isEmpty)
    let fields = bytes.split(separator: UInt8(ascii: " "))
    precondition(fields.contains { $0.elementsEqual(MountedFileSystem.type.utf8) }, "others are not taken for ours")
    precondition(fields[0].elementsEqual(mount.identifier.utf8) || String(validating: fields[0], as: UTF8.self) == nil)
    if !fields[4].contains(UInt8(ascii: "\\")) {
      precondition(mount.mountPoint == String(decoding: fields[4], as: UTF8.self), "only escapes are undone")
    }
  }
  let path = String(decoding: bytes.filter { $0 != 0 }, as: UTF8.self)
  let mountPoint = escaped("/" + path)
  let backing = escaped(path.isEmpty ? "none" : path)
  let line = "412 29 0:51 / \(mountPoint) rw,nosuid shared:9 - fuse.protectfs \(backing) rw,user_id=1000,group_id=100"
  guard let mount = MountedFileSystem(line: Array(line.utf8)[...]) else { preconditionFailure("a line of ours") }
  precondition(mount.mountPoint.utf8.elementsEqual(("/" + path).utf8))
  precondition(mount.backing.utf8.elementsEqual((path.isEmpty ? "none" : path).utf8))
  precondition(mount.identifier == "412" && mount.device == "0:51" && mount.owner == 1000)
  precondition(mount == MountedFileSystem(line: Array(line.utf8)[...]))

  // What the kernel never writes is left as it is.
  let unescaped = "412 29 0:51 / /\\+12\\8 rw - fuse.protectfs none rw"
  precondition(MountedFileSystem(line: Array(unescaped.utf8)[...])?.mountPoint == "/\\+12\\8")
}

/// As the kernel escapes a field (proc_pid_mountinfo(5)).
private func escaped(_ field: String) -> String {
  var text = ""
  for scalar in field.unicodeScalars {
    switch scalar {
    case " ": text += "\\040"
    case "\t": text += "\\011"
    case "\n": text += "\\012"
    case "\\": text += "\\134"
    case "#": text += "\\043"
    default: text.unicodeScalars.append(scalar)
    }
  }
  return text
}
