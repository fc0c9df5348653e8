import CFUSE
import Contract
import InProcessKernel
import ProtectfsIO
import SystemPackage

/// The operations of the contract as requests to a store in this process, across restarts of its daemon.
extension InProcessStore: FileCalls {
  func status(of path: PathName) throws(Errno) -> CallStatus { CallStatus(try kernel.status(of: path)) }
  func names(in path: PathName) throws(Errno) -> [PathName] { try kernel.names(in: path) }
  func open(_ path: PathName, _ flags: CInt) throws(Errno) -> any FileDescriptorCalls { try kernel.open(path, flags) }
  func truncate(_ path: PathName, to length: Int) throws(Errno) { try kernel.truncate(path, to: Int64(length)) }
  func makeDirectory(_ path: PathName) throws(Errno) { try kernel.makeDirectory(path) }
  func makeNode(_ path: PathName, mode: UInt32) throws(Errno) { try kernel.makeNode(path, mode: mode) }
  func makeSymbolicLink(_ path: PathName, to target: PathName) throws(Errno) {
    try kernel.makeSymbolicLink(path, to: target)
  }
  func target(of path: PathName) throws(Errno) -> [UInt8] {
    Array(try kernel.target(of: kernel.inode(path)).bytes)
  }
  func link(_ path: PathName, as target: PathName) throws(Errno) { try kernel.link(path, as: target) }
  func rename(_ path: PathName, to target: PathName) throws(Errno) { try kernel.rename(path, to: target) }
  func unlink(_ path: PathName) throws(Errno) { try kernel.unlink(path) }
  func removeDirectory(_ path: PathName) throws(Errno) { try kernel.removeDirectory(path) }
  func setMode(of path: PathName, to mode: UInt32) throws(Errno) { try kernel.setMode(of: path, to: mode) }
  func setOwner(of path: PathName, user: UInt32, group: UInt32) throws(Errno) {
    try kernel.setOwner(of: path, user: Int64(user), group: Int64(group))
  }
  func setTimes(of path: PathName, seconds: Int64) throws(Errno) {
    try kernel.setTimes(
      of: path, access: InodeTime(seconds: seconds), modification: InodeTime(seconds: seconds))
  }
  func attribute(_ name: PathName, of path: PathName) throws(Errno) -> [UInt8] {
    try kernel.attribute(name, of: path)
  }
  func setAttribute(_ name: PathName, of path: PathName, to value: [UInt8]) throws(Errno) {
    try kernel.setAttribute(name, of: path, to: value)
  }
  func attributeNames(of path: PathName) throws(Errno) -> [String] {
    try kernel.attributeNames(of: path).split(separator: 0).map { String(decoding: $0, as: UTF8.self) }.sorted()
  }
}

extension OpenInode: FileDescriptorCalls {
  package func callStatus() throws(Errno) -> CallStatus { CallStatus(try status()) }

  package func read(at offset: Int, count: Int) throws(Errno) -> [UInt8] { try read(at: Int64(offset), count: count) }

  package func write(_ bytes: [UInt8], at offset: Int) throws(Errno) {
    guard try write(bytes, at: Int64(offset)) == bytes.count else { throw .ioError }
  }

  package func append(_ bytes: [UInt8]) throws(Errno) { try write(bytes, at: 0) as Void }

  package func truncate(to length: Int) throws(Errno) { try truncate(to: Int64(length)) }

  package func allocate(_ mode: AllocationMode, at offset: Int, count: Int) throws(Errno) {
    try allocate(mode, at: Int64(offset), count: Int64(count))
  }

  package func copyRange(
    from offset: Int, to target: any FileDescriptorCalls, at targetOffset: Int, count: Int
  ) throws(Errno) -> Int {
    guard let target = target as? OpenInode else { throw .badFileDescriptor }
    return try copyRange(from: Int64(offset), to: target, at: Int64(targetOffset), count: Int64(count))
  }

  package func synchronize() throws(Errno) { try synchronize(dataOnly: false) }

  package func synchronizeData() throws(Errno) { try synchronize(dataOnly: true) }

  package func map(count: Int) throws(Errno) -> any MappingCalls { throw .notSupported }
}

extension CallStatus {
  init(_ attributes: fuse_attr) {
    self.init(inode: attributes.ino, size: attributes.size, links: attributes.nlink)
  }
}
