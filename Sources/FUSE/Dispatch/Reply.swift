import CFUSE
import Glibc
import ProtectfsIO
import SystemPackage

/// The answer to a request.
@safe enum Answer {
  case done
  case entry(Entry)
  case attributes(Status, timeout: Double)
  case created(Entry, Opened)
  case opened(Opened)
  case data(UnsafeRawBufferPointer, wipe: Bool)
  case written(Int)
  case text(PathName)
  case offset(UInt64)
  case status(FileSystemStatus)
  /// An extended attribute's value, or the list of names, for a caller whose buffer has `capacity` bytes; 0 requests
  /// the length.
  case attribute([UInt8], capacity: Int)
}

/// The duty to answer a request exactly once. Sending consumes the reply, and a reply that is dropped answers EIO.
/// Nothing is sent if another thread has answered because the store did not respond (``ServedRequest``).
@safe struct Reply: ~Copyable {
  private let request: fuse_req_t

  init(_ request: fuse_req_t) {
    unsafe self.request = request
  }

  deinit {
    if Worker.claimAnswer() { _ = unsafe fuse_reply_err(request, EIO) } else { unsafe fuse_reply_none(request) }
  }

  /// Answers with an error.
  consuming func send(_ error: Errno) {
    LockOrder.requireNoneHeld("a reply")
    if Worker.claimAnswer() {
      _ = unsafe fuse_reply_err(request, error.rawValue)
    } else {
      unsafe fuse_reply_none(request)
    }
    discard self
  }

  /// Completes a request that expects no answer.
  consuming func none() {
    unsafe fuse_reply_none(request)
    discard self
  }

  /// Sends an answer. libfuse returns whether the caller was still waiting for it, which makes no difference here.
  /// Returns `false` if another thread has answered.
  @discardableResult
  consuming func send(_ answer: Answer) -> Bool {
    LockOrder.requireNoneHeld("a reply")
    guard Worker.claimAnswer() else {
      unsafe fuse_reply_none(request)
      discard self
      return false
    }
    unsafe Self.send(answer, to: request)
    discard self
    return true
  }

  private static func send(_ answer: Answer, to request: fuse_req_t) {
    switch answer {
    case .done:
      _ = unsafe fuse_reply_err(request, 0)
    case .entry(let entry):
      var parameters = entry.parameters
      _ = unsafe fuse_reply_entry(request, &parameters)
    case .attributes(let attributes, let timeout):
      var status = attributes.stat
      _ = unsafe fuse_reply_attr(request, &status, timeout)
    case .created(let entry, let opened):
      var parameters = entry.parameters
      var info = opened.information
      _ = unsafe fuse_reply_create(request, &parameters, &info)
    case .opened(let opened):
      var info = opened.information
      _ = unsafe fuse_reply_open(request, &info)
    case .data(let bytes, let wipe):
      _ = unsafe fuse_reply_buf(request, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
      if wipe { unsafe Worker.wipe(bytes) }
    case .written(let count):
      _ = unsafe fuse_reply_write(request, count)
    case .text(let text):
      _ = unsafe text.withCString { unsafe fuse_reply_readlink(request, $0) }
    case .offset(let offset):
      _ = unsafe fuse_reply_lseek(request, off_t(truncatingIfNeeded: offset))
    case .status(let status):
      var status = status
      _ = unsafe fuse_reply_statfs(request, &status)
    case .attribute(let value, let capacity):
      unsafe Self.send(value, capacity: capacity, to: unsafe request)
    }
  }

  /// Answers with a value made for this answer alone. The value is wiped afterwards, since it may be decrypted.
  private static func send(_ value: [UInt8], capacity: Int, to request: fuse_req_t) {
    defer { unsafe value.withBytes { unsafe Memory.wipe(UnsafeMutableRawBufferPointer(mutating: $0)) } }
    if capacity == 0 {
      _ = unsafe fuse_reply_xattr(request, value.count)
    } else if value.count > capacity {
      _ = unsafe fuse_reply_err(request, ERANGE)
    } else {
      unsafe value.withBytes { bytes in
        _ = unsafe fuse_reply_buf(request, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
      }
      Worker.ofThread?.ringAnswer?.holdsSecrets = true
    }
  }
}

extension Status {
  /// As stat(2) returns it.
  var stat: stat {
    var status = Glibc.stat()
    status.st_ino = UInt(inode)
    status.st_mode = mode
    status.st_nlink = numericCast(links)
    status.st_uid = user
    status.st_gid = group
    status.st_rdev = UInt(raw_device)
    status.st_size = off_t(truncatingIfNeeded: size)
    status.st_blocks = blkcnt_t(truncatingIfNeeded: blocks)
    status.st_blksize = numericCast(block_size)
    status.st_atim = timespec(tv_sec: Int(access_seconds), tv_nsec: Int(access_nanoseconds))
    status.st_mtim = timespec(tv_sec: Int(modification_seconds), tv_nsec: Int(modification_nanoseconds))
    status.st_ctim = timespec(tv_sec: Int(change_seconds), tv_nsec: Int(change_nanoseconds))
    return status
  }
}

extension Entry {
  /// As libfuse's structure.
  var parameters: fuse_entry_param {
    var parameters = fuse_entry_param()
    parameters.ino = node.rawValue
    parameters.generation = UInt64(generation)
    parameters.attr = attributes.stat
    parameters.attr_timeout = attributeTimeout
    parameters.entry_timeout = entryTimeout
    return parameters
  }
}

extension Opened {
  /// As libfuse's structure.
  var information: fuse_file_info {
    var information = fuse_file_info()
    information.fh = handle.rawValue
    information.keep_cache = keepsCache || cachesDirectory ? 1 : 0
    information.cache_readdir = cachesDirectory ? 1 : 0
    return information
  }
}
