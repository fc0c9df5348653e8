import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// The operations of the contract that are about classes themselves.
extension ContractOperation {
  static let onClasses: [String: ContractOperation] = [
    "get class": .init { s throws(Errno) in try s.expect(try s.path.protectionClass() == s.fileClass) },
    "get class of directory": .init { s throws(Errno) in
      try s.expect(try s.directory.protectionClass() == s.fileClass)
    },
    "set class of directory": .init(prepare: { s throws(Errno) in try s.sibling(".directory").makeDirectory() }) {
      s throws(Errno) in
      for fileClass in ProtectionClass.allCases { try s.sibling(".directory").setProtectionClass(fileClass) }
      try s.sibling(".directory").setProtectionClass(s.fileClass)
    },
    "set class to the same": .init { s throws(Errno) in try s.path.setProtectionClass(s.fileClass) },
    "set class to D": .init { s throws(Errno) in
      try s.path.setProtectionClass(.none)
      try s.expect(try s.path.contents() == s.contents)
    },
    "set class to B": .init { s throws(Errno) in try s.path.setProtectionClass(.completeUnlessOpen) },
    "set class from D": .init { s throws(Errno) in
      do throws(Errno) { try s.other.setProtectionClass(s.fileClass) } catch {
        try s.expect(try s.other.protectionClass() == .none)
        throw error
      }
    },
    // An editor's way to save: the new file takes the class that was chosen for the old one, or replaces nothing.
    "replace a chosen class": .init(prepare: { s throws(Errno) in try s.path.setProtectionClass(s.fileClass) }) {
      s throws(Errno) in
      let old = try s.path.status().inode
      do throws(Errno) { try s.other.rename(to: s.path) } catch {
        try s.expect(try s.path.status().inode == old)
        try s.expect(try s.other.protectionClass() == .none)
        throw error
      }
      try s.expect(try s.path.protectionClass() == s.fileClass)
    },
  ]
}
