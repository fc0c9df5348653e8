import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage

extension Identity {
  /// Makes the calls of `body` as this identity, on this thread alone. For root.
  func perform<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
    try check(
      unsafe groups.withUnsafeBufferPointer { unsafe calls_become(user, group, $0.baseAddress, $0.count) })
    do throws(Errno) {
      let result = try body()
      try check(calls_become_root())
      return result
    } catch {
      try check(calls_become_root())
      throw error
    }
  }

  /// The command that starts a program as this identity.
  var launcher: [String] {
    let list = groups.map(String.init).joined(separator: ",")
    return ["setpriv", "--reuid=\(user)", "--regid=\(group)", list.isEmpty ? "--clear-groups" : "--groups=\(list)"]
  }
}

extension PathName {
  /// The content of a file in /proc, whose size is not meaningful.
  func text() throws(Errno) -> String {
    String(decoding: try OpenFile(self, O_RDONLY).read(at: 0, count: 1 << 16), as: UTF8.self)
  }

  func give(to identity: Identity, mode: UInt32) throws(Errno) {
    try setOwner(user: identity.user, group: identity.group)
    try setMode(mode)
  }
}
