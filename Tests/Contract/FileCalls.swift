import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The calls that the operations of the contract are made of: system calls on a mount, or requests to a file system in
/// this process. No symbolic link is followed.
package protocol FileCalls: Sendable {
  func status(of path: PathName) throws(Errno) -> CallStatus
  /// The names in a directory, without `.` and `..`.
  func names(in path: PathName) throws(Errno) -> [PathName]
  func open(_ path: PathName, _ flags: CInt) throws(Errno) -> any FileDescriptorCalls
  func truncate(_ path: PathName, to length: Int) throws(Errno)

  func makeDirectory(_ path: PathName) throws(Errno)
  /// Makes an empty file (mknod(2)).
  func makeNode(_ path: PathName, mode: UInt32) throws(Errno)
  func makeSymbolicLink(_ path: PathName, to target: PathName) throws(Errno)
  func target(of path: PathName) throws(Errno) -> [UInt8]
  func link(_ path: PathName, as target: PathName) throws(Errno)
  func rename(_ path: PathName, to target: PathName) throws(Errno)
  func unlink(_ path: PathName) throws(Errno)
  func removeDirectory(_ path: PathName) throws(Errno)

  func setMode(of path: PathName, to mode: UInt32) throws(Errno)
  func setOwner(of path: PathName, user: UInt32, group: UInt32) throws(Errno)
  func setTimes(of path: PathName, seconds: Int64) throws(Errno)
  func attribute(_ name: PathName, of path: PathName) throws(Errno) -> [UInt8]
  func setAttribute(_ name: PathName, of path: PathName, to value: [UInt8]) throws(Errno)
  func attributeNames(of path: PathName) throws(Errno) -> [String]
}

/// What is done with an open file, which is closed with its last reference.
package protocol FileDescriptorCalls: AnyObject, Sendable {
  func callStatus() throws(Errno) -> CallStatus
  func read(at offset: Int, count: Int) throws(Errno) -> [UInt8]
  /// Writes all, or throws.
  func write(_ bytes: [UInt8], at offset: Int) throws(Errno)
  /// Writes where `O_APPEND` says.
  func append(_ bytes: [UInt8]) throws(Errno)
  func truncate(to length: Int) throws(Errno)
  func allocate(_ mode: AllocationMode, at offset: Int, count: Int) throws(Errno)
  /// Copies into another file of the same file system (copy_file_range(2)).
  func copyRange(from offset: Int, to target: any FileDescriptorCalls, at targetOffset: Int, count: Int) throws(Errno)
    -> Int
  func synchronize() throws(Errno)
  func synchronizeData() throws(Errno)
  /// Maps it, shared, for reading and writing.
  func map(count: Int) throws(Errno) -> any MappingCalls
}

/// A mapping. Where a program would be sent SIGBUS, it throws `EFAULT`.
package protocol MappingCalls: AnyObject, Sendable {
  func read(at offset: Int, count: Int) throws(Errno) -> [UInt8]
  func write(_ bytes: [UInt8], at offset: Int) throws(Errno)
}

/// What the operations look at of stat(2).
package struct CallStatus: Sendable {
  package let inode: UInt64
  package let size: UInt64
  package let links: UInt32

  package init(inode: UInt64, size: UInt64, links: UInt32) {
    self.inode = inode
    self.size = size
    self.links = links
  }
}

/// A path on one of the file systems.
package struct CallPath: Sendable {
  package let calls: any FileCalls
  package let path: PathName

  package init(_ calls: any FileCalls, _ path: PathName) {
    self.calls = calls
    self.path = path
  }

  /// A name in the directory of this path.
  package func appending(_ name: String) -> CallPath {
    CallPath(calls, PathName(bytes: path.bytes + [UInt8(ascii: "/")] + Array(name.utf8)))
  }

  package var exists: Bool { (try? status()) != nil }

  func open(_ flags: CInt) throws(Errno) -> any FileDescriptorCalls { try calls.open(path, flags) }
  func status() throws(Errno) -> CallStatus { try calls.status(of: path) }
  func rename(to target: CallPath) throws(Errno) { try calls.rename(path, to: target.path) }
  package func makeDirectory() throws(Errno) { try calls.makeDirectory(path) }
  func setAttribute(_ name: PathName, to value: [UInt8]) throws(Errno) {
    try calls.setAttribute(name, of: path, to: value)
  }
  func attribute(_ name: PathName) throws(Errno) -> [UInt8] { try calls.attribute(name, of: path) }

  /// The contents of a file.
  package func contents() throws(Errno) -> [UInt8] {
    try open(O_RDONLY).read(at: 0, count: Int(try status().size))
  }

  /// Makes a file of these contents, or replaces what is in it.
  package func write(_ bytes: [UInt8]) throws(Errno) { try open(O_WRONLY | O_CREAT | O_TRUNC).write(bytes, at: 0) }

  /// The class of a file or directory, as its extended attribute tells it.
  func protectionClass() throws(Errno) -> ProtectionClass {
    let value = try attribute(ContractOperation.classAttribute)
    guard let fileClass = ProtectionClass(name: String(decoding: value, as: UTF8.self)) else { throw .wrongResult }
    return fileClass
  }

  func setProtectionClass(_ fileClass: ProtectionClass) throws(Errno) {
    try setAttribute(ContractOperation.classAttribute, to: Array(fileClass.name.utf8))
  }

  /// Makes a directory whose new files are of a class.
  package func makeDirectory(of fileClass: ProtectionClass) throws(Errno) {
    try makeDirectory()
    try setProtectionClass(fileClass)
  }
}

extension Errno {
  /// Thrown where a call has succeeded, and its result is wrong: nothing returns it.
  static let wrongResult = Errno(rawValue: 9998)
}
