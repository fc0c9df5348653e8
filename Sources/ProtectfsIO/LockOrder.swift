import CProtectfsIO
import ProtectfsLibc

/// The rank of a lock, and the check of the order: a byte in debug builds, nothing at all in release builds.
public struct LockOrder: Sendable {
  #if DEBUG
    @usableFromInline let rank: LockRank
  #endif

  /// The order of a lock with a rank.
  @inlinable public init(_ rank: LockRank) {
    #if DEBUG
      self.rank = rank
    #endif
  }

  /// The calling thread is about to take the lock, where its rank admits that as one of several.
  @inlinable @inline(__always) func willTake(isOneOfSeveral: Bool = false) {
    #if DEBUG
      rank.willBeTaken(isOneOfSeveral: isOneOfSeveral)
    #endif
  }

  /// The calling thread has released the lock.
  @inlinable @inline(__always) func hasReleased() {
    #if DEBUG
      rank.hasBeenReleased()
    #endif
  }

  /// The calling thread is about to release the lock while it waits, and to take it again.
  @inlinable @inline(__always) func willWait() {
    #if DEBUG
      LockRank.requireCallsAllowed("a wait", except: rank)
    #endif
  }

  /// The calling thread is about to make a system call, or to wait: it must hold no lock that forbids it.
  @inlinable @inline(__always) public static func requireCallsAllowed(_ call: StaticString) {
    #if DEBUG
      LockRank.requireCallsAllowed(call)
    #endif
  }
}

extension LockOrder {
  /// The calling thread is about to do something that may wait for other threads: it must hold no lock at all.
  @inlinable @inline(__always) public static func requireNoneHeld(_ act: StaticString) {
    #if DEBUG
      LockRank.requireNoneHeld(act)
    #endif
  }
}

#if DEBUG
  // The locks that a thread holds are counted in C, where that allocates nothing.
  extension LockRank {
    private nonisolated(unsafe) static let names = unsafe allCases.map { unsafe strdup("\($0)")! }

    private var allows: CInt {
      if self >= Self.firstLeaf { return CInt(LINUX_LOCK_ALLOWS_NOTHING) }
      return CInt(self >= Self.firstWithoutSystemCalls ? LINUX_LOCK_ALLOWS_LOCKS : LINUX_LOCK_ALLOWS_CALLS)
    }

    @usableFromInline func willBeTaken(isOneOfSeveral: Bool) {
      let isAdmitted = isOneOfSeveral && self == .contents
      unsafe linux_will_take_lock(UInt32(rawValue), Self.names[Int(rawValue)], allows, isAdmitted ? 1 : 0)
    }

    @usableFromInline func hasBeenReleased() { linux_has_released_lock(UInt32(rawValue)) }

    @usableFromInline static func requireCallsAllowed(_ call: StaticString, except: LockRank? = nil) {
      unsafe withCString(call) { unsafe linux_require_calls_allowed($0, except.map { CInt($0.rawValue) } ?? -1) }
    }

    @usableFromInline static func requireNoneHeld(_ act: StaticString) {
      unsafe withCString(act) { unsafe linux_require_no_locks($0) }
    }

    private static func withCString(_ text: StaticString, _ body: (UnsafePointer<CChar>) -> Void) {
      unsafe text.utf8Start.withMemoryRebound(to: CChar.self, capacity: text.utf8CodeUnitCount + 1) {
        unsafe body($0)
      }
    }
  }
#endif
