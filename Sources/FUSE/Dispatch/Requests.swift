import ProtectfsIO
import SystemPackage

/// The kernel's number of an inode. Node 1 is the root.
package struct NodeID: Hashable, Sendable {
  package let rawValue: UInt64

  package init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// `FUSE_ROOT_ID`.
  package static let root = NodeID(rawValue: 1)
}

/// The file system's number of an open file or directory. The kernel passes it back with each request.
package struct Handle: Hashable, Sendable {
  package let rawValue: UInt64

  package init(rawValue: UInt64) {
    self.rawValue = rawValue
  }
}

/// The sender of a request. Not valid for the kernel's own write-back.
package struct Caller: Sendable {
  package let user: UInt32
  package let group: UInt32
  package let process: Int32
  package let umask: UInt32

  init(user: UInt32, group: UInt32, process: Int32, umask: UInt32) {
    self.user = user
    self.group = group
    self.process = process
    self.umask = umask
  }

  /// This process, where it asks a file system without the kernel in between.
  package static var own: Caller {
    let (user, group) = Process.identity
    return Caller(user: user, group: group, process: 0, umask: 0)
  }
}

/// The answer to a lookup: a node, its attributes, and for how many seconds the kernel may keep each.
package struct Entry: Sendable {
  package var node: NodeID
  /// Distinguishes the node from others that had, or will have, the same number.
  package var generation: UInt32
  package var attributes: Status
  package var entryTimeout: Double
  package var attributeTimeout: Double

  package init(
    node: NodeID, generation: UInt32 = 0, attributes: Status, entryTimeout: Double, attributeTimeout: Double
  ) {
    self.node = node
    self.generation = generation
    self.attributes = attributes
    self.entryTimeout = entryTimeout
    self.attributeTimeout = attributeTimeout
  }
}

/// The answer to an open.
package struct Opened: Sendable {
  package var handle: Handle
  /// The kernel's cached pages of the file are still valid.
  package var keepsCache: Bool
  /// The kernel may keep the directory's entries.
  package var cachesDirectory: Bool

  package init(handle: Handle, keepsCache: Bool = false, cachesDirectory: Bool = false) {
    self.handle = handle
    self.keepsCache = keepsCache
    self.cachesDirectory = cachesDirectory
  }
}

/// The changes of a setattr; `nil` and `leave` leave a value unchanged.
package struct AttributeChanges: Sendable {
  package var mode: UInt32?
  package var user: UInt32?
  package var group: UInt32?
  package var size: UInt64?
  package var access = TimeChange.leave
  package var modification = TimeChange.leave
  /// The caller may not keep set-user-ID and set-group-ID bits (`FATTR_KILL_SUIDGID`).
  package var clearsSetID = false
  /// Nothing changes. A chown(2) with neither a user nor a group is sent in this form.
  package var isEmpty = false

  /// Whether mode, owner or set-ID bits may change, and not only the length and times.
  package var changesPrivileges: Bool { mode != nil || user != nil || group != nil || clearsSetID || isEmpty }
}

/// The flags of an open or create, as in open(2).
package struct HandleFlags: Sendable {
  package let rawValue: Int32
  /// The caller, who truncates the file, may not keep set-user-ID and set-group-ID bits (`FUSE_OPEN_KILL_SUIDGID`).
  package let clearsSetID: Bool

  package init(rawValue: Int32, clearsSetID: Bool = false) {
    self.rawValue = rawValue
    self.clearsSetID = clearsSetID
  }

  package var forWriting: Bool { rawValue & 0o3 != 0 }
  package var forReading: Bool { rawValue & 0o3 != 1 }
  package var truncates: Bool { rawValue & 0o1000 != 0 }
  package var exclusive: Bool { rawValue & 0o200 != 0 }
  /// `O_NOATIME`, which the kernel has permitted.
  package var keepsAccessTime: Bool { rawValue & 0o1000000 != 0 }
}
