import CFUSE
import ProtectfsIO

/// The kinds of requests on a file's contents that a lock refuses.
package enum ContentsOperation: Sendable {
  /// The kernel requests attributes before an open, to check modes, and before a write to its cache.
  case attributes
  case resize, open, read, write, allocate, copyRange

  /// `nil` for requests of other kinds.
  init?(_ operation: fuse_opcode) {
    switch operation {
    case FUSE_GETATTR: self = .attributes
    case FUSE_SETATTR: self = .resize
    case FUSE_OPEN: self = .open
    case FUSE_READ: self = .read
    case FUSE_WRITE: self = .write
    case FUSE_FALLOCATE: self = .allocate
    case FUSE_COPY_FILE_RANGE: self = .copyRange
    default: return nil
    }
  }
}

extension fuse_opcode {
  /// Whether such a request waits for the disk, or works through much of a file, as a rule.
  var mayWaitForDisk: Bool {
    switch self {
    case FUSE_FSYNC, FUSE_FSYNCDIR, FUSE_FLUSH, FUSE_FALLOCATE, FUSE_LSEEK, FUSE_COPY_FILE_RANGE, FUSE_SYNCFS: true
    default: false
    }
  }
}

/// The header of a request, before its arguments (`struct fuse_in_header` in linux/fuse.h).
package struct RequestHeader: Sendable {
  let operation: fuse_opcode
  package let unique: UInt64
  package let node: NodeID
  /// The operation on contents, if it is one.
  package let contents: ContentsOperation?
  /// Whether it is a write of cached pages, as opposed to one past the cache.
  package let isWriteBack: Bool
  /// The process that sent it; 0 for the kernel.
  package let process: Int32

  init(
    operation: fuse_opcode, unique: UInt64, node: NodeID, contents: ContentsOperation, isWriteBack: Bool
  ) {
    self.operation = operation
    self.unique = unique
    self.node = node
    self.contents = contents
    self.isWriteBack = isWriteBack
    process = 0
  }

  /// Parses the header of a request from the kernel.
  init(_ request: UnsafeRawBufferPointer) {
    let header = unsafe request.load(as: fuse_in_header.self)
    operation = fuse_opcode(rawValue: header.opcode)
    unique = header.unique
    node = NodeID(rawValue: header.nodeid)
    process = Int32(bitPattern: header.pid)
    let contents = ContentsOperation(operation)
    isWriteBack =
      unsafe contents == .write
      && request.arguments(as: fuse_write_in.self).write_flags & UInt32(FUSE_WRITE_CACHE) != 0
    if contents == .resize, unsafe request.arguments(as: fuse_setattr_in.self).valid & UInt32(FATTR_SIZE) == 0 {
      self.contents = nil
    } else {
      self.contents = contents
    }
  }
}

extension UnsafeRawBufferPointer {
  /// The arguments of a request, behind its header. The buffer has room for them, whatever the kernel has sent.
  func arguments<Arguments: BitwiseCopyable>(as type: Arguments.Type) -> Arguments {
    unsafe load(fromByteOffset: MemoryLayout<fuse_in_header>.size, as: type)
  }

  /// The nodes that a request FUSE_BATCH_FORGET is about.
  var forgottenNodes: [NodeID] {
    let first = MemoryLayout<fuse_in_header>.size + MemoryLayout<fuse_batch_forget_in>.size
    let size = MemoryLayout<fuse_forget_one>.size
    let number = Swift.min(Int(unsafe arguments(as: fuse_batch_forget_in.self).count), (count - first) / size)
    return (0..<number).map { index in
      NodeID(rawValue: unsafe load(fromByteOffset: first + index * size, as: fuse_forget_one.self).nodeid)
    }
  }
}
