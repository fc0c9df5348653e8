import ProtectfsIO
import SystemPackage

/// Waits for a keybag that is put in place, by whomever, and for a request that all hosts lock.
package struct KeybagWatch: ~Copyable, Sendable {
  /// `nil` where other hosts may do that, which nothing reports.
  private let watch: DirectoryWatch?

  fileprivate init(_ watch: consuming DirectoryWatch?) {
    self.watch = watch
  }

  /// Waits until that has, or may have, happened since the watch was made, or since this was last called; for a second
  /// at most where what was seen last is to be looked at again. Returns `false` when it never will any more: the
  /// store's own directory is gone.
  package func wait(isSettled: Bool) -> Bool {
    guard watch != nil else {
      MonotonicClock.sleep(microseconds: 1_000_000)
      return true
    }
    let deadline = isSettled ? nil : MonotonicClock.now + .seconds(1)
    return (try? watch?.wait(for: KeybagFile.name, HostLocks.name, until: deadline)) != nil
  }
}

extension KeybagFile {
  /// Watches the keybag from now on.
  package func watch() throws(KeyManagementError) -> KeybagWatch {
    if directory.mayServeSeveralHosts { return KeybagWatch(nil) }
    do throws(Errno) { return KeybagWatch(try DirectoryWatch(directory)) } catch { throw .keybagUnreadable(error) }
  }
}
