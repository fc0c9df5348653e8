import Contract
import ProtectfsIO
import SystemPackage

/// The operations of the contract as system calls.
struct SystemCalls: FileCalls {
  func status(of path: PathName) throws(Errno) -> CallStatus { CallStatus(try path.status()) }
  func names(in path: PathName) throws(Errno) -> [PathName] { try path.names() }
  func open(_ path: PathName, _ flags: CInt) throws(Errno) -> any FileDescriptorCalls { try OpenFile(path, flags) }
  func truncate(_ path: PathName, to length: Int) throws(Errno) { try path.truncate(to: length) }
  func makeDirectory(_ path: PathName) throws(Errno) { try path.makeDirectory() }
  func makeNode(_ path: PathName, mode: UInt32) throws(Errno) { try path.makeNode(mode: mode) }
  func makeSymbolicLink(_ path: PathName, to target: PathName) throws(Errno) { try path.makeSymbolicLink(to: target) }
  func target(of path: PathName) throws(Errno) -> [UInt8] { try path.symbolicLinkTarget() }
  func link(_ path: PathName, as target: PathName) throws(Errno) { try path.link(as: target) }
  func rename(_ path: PathName, to target: PathName) throws(Errno) { try path.rename(to: target) }
  func unlink(_ path: PathName) throws(Errno) { try path.unlink() }
  func removeDirectory(_ path: PathName) throws(Errno) { try path.removeDirectory() }
  func setMode(of path: PathName, to mode: UInt32) throws(Errno) { try path.setMode(mode) }
  func setOwner(of path: PathName, user: UInt32, group: UInt32) throws(Errno) {
    try path.setOwner(user: user, group: group)
  }
  func setTimes(of path: PathName, seconds: Int64) throws(Errno) { try path.setTimes(seconds: seconds) }
  func attribute(_ name: PathName, of path: PathName) throws(Errno) -> [UInt8] { try path.extendedAttribute(name) }
  func setAttribute(_ name: PathName, of path: PathName, to value: [UInt8]) throws(Errno) {
    try path.setExtendedAttribute(name, to: value)
  }
  func attributeNames(of path: PathName) throws(Errno) -> [String] { try path.extendedAttributeNames() }
}

extension OpenFile: FileDescriptorCalls {
  func callStatus() throws(Errno) -> CallStatus { CallStatus(try status()) }

  func copyRange(
    from offset: Int, to target: any FileDescriptorCalls, at targetOffset: Int, count: Int
  ) throws(Errno) -> Int {
    guard let target = target as? OpenFile else { throw .improperLink }
    return try copyRange(from: offset, to: target, at: targetOffset, count: count)
  }

  func map(count: Int) throws(Errno) -> any MappingCalls { try Mapping(self, count: count) }
}

extension Mapping: MappingCalls {}

extension CallStatus {
  init(_ status: FileStatus) {
    self.init(inode: status.inode, size: status.size, links: status.links)
  }
}
