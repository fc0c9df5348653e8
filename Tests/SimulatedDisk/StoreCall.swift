import SystemPackage

/// A call of store.h.
package enum StoreCall: Sendable {
  /// openat(2) that may make a file.
  case create
  case openat, pread, pwrite, pwritev2, sendfile, lseek, ftruncate, fallocate, fsync, fdatasync, syncfs, syncFileRange,
    fstatfs, mkdirat, mknodat, symlinkat, linkat, unlinkat, renameat2, readlinkat, fchmod, chmod, fchownat, utimensat,
    fsetxattr, setxattr, fremovexattr, removexattr, fgetxattr, getxattr, lgetxattr, flistxattr, listxattr, statx,
    getdents64

  /// What kinds of calls there are.
  struct Kinds: OptionSet, Sendable {
    let rawValue: Int

    static let reads = Kinds(rawValue: 1)
    /// They may need room on the disk.
    static let room = Kinds(rawValue: 2)
    static let otherChanges = Kinds(rawValue: 4)
    static let flushes = Kinds(rawValue: 8)
  }

  var kind: Kinds {
    switch self {
    case .openat, .pread, .sendfile, .lseek, .readlinkat, .fgetxattr, .getxattr, .lgetxattr, .flistxattr, .listxattr,
      .fstatfs, .statx, .getdents64:
      .reads
    case .create, .pwrite, .pwritev2, .fallocate, .mkdirat, .mknodat, .symlinkat, .linkat, .renameat2, .fsetxattr,
      .setxattr:
      .room
    case .fsync, .fdatasync, .syncfs, .syncFileRange: .flushes
    case .ftruncate, .unlinkat, .fchmod, .chmod, .fchownat, .utimensat, .fremovexattr, .removexattr: .otherChanges
    }
  }
}

/// How a call fails, and which may.
package struct CallFailure: Sendable, CustomStringConvertible {
  enum Manner: Sendable {
    case once
    /// Once, although it was carried out.
    case afterwards
    /// As all later ones of the kinds do.
    case fromThen
    /// Half of what it writes is written, and the next call of the kinds fails.
    case halfway
  }

  package let error: Errno
  let manner: Manner
  let kinds: StoreCall.Kinds

  package var description: String { "\(error), \(manner)" }

  package static let all = [
    CallFailure(error: .ioError, manner: .once, kinds: [.reads, .room, .otherChanges, .flushes]),
    CallFailure(error: .ioError, manner: .fromThen, kinds: .flushes),
    CallFailure(error: .ioError, manner: .afterwards, kinds: [.room, .otherChanges]),
    CallFailure(error: .noSpace, manner: .once, kinds: .room),
    CallFailure(error: .noSpace, manner: .fromThen, kinds: .room),
    CallFailure(error: .diskQuotaExceeded, manner: .halfway, kinds: .room),
  ]
}

extension SimulatedDisk {
  struct Armed {
    let failure: CallFailure
    /// How many calls of the kinds come before it.
    var remaining: Int
    /// The call that it was.
    var hit: StoreCall?
  }

  /// Has a call fail.
  ///
  /// - Parameter number: of the call among those of the kinds from now on, from 1.
  package func arm(_ failure: CallFailure, at number: Int) { armed = Armed(failure: failure, remaining: number - 1) }

  /// Has no more calls fail. Returns the one that did, if it came.
  package func disarm() -> StoreCall? {
    defer { armed = nil }
    return armed?.hit
  }

  func carryOut<Result>(
    _ call: StoreCall, at location: Location, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    effect = effect(on: call, at: location)
    defer { effect = nil }
    guard let armed, armed.failure.kinds.contains(call.kind) else { return try body() }
    self.armed!.remaining -= 1
    guard armed.remaining <= 0 else { return try body() }
    let isFirst = armed.remaining == 0
    if isFirst { self.armed!.hit = call }
    let error = Failure(armed.failure.error.rawValue)
    switch armed.failure.manner {
    case .once where isFirst, .fromThen,
      .halfway where armed.remaining == -1:
      throw error
    case .afterwards where isFirst:
      _ = try body()
      throw error
    case .halfway where isFirst:
      halfway = error
      defer { halfway = nil }
      return try body()
    default: return try body()
    }
  }
}
