import KeyManagement
import LinuxIO
import StoreFormat
import SystemPackage

/// The keybag and its second copy, as they lie in a store. Either will do to check the rest.
package struct KeybagCopies: Sendable {
  let current: Result<[UInt8], KeyManagementError>
  let previous: Result<[UInt8], KeyManagementError>

  /// Reads both.
  ///
  /// - Throws: `keybagMissing` where there is neither.
  package init(backing: borrowing Descriptor) throws(KeyManagementError) {
    let file = try KeybagFile(backing: backing)
    do throws(KeyManagementError) { current = .success(try file.read()) } catch { current = .failure(error) }
    do throws(KeyManagementError) { previous = .success(try file.readPrevious()) } catch { previous = .failure(error) }
    if case .failure(.keybagMissing) = current, case .failure = previous { throw .keybagMissing }
  }

  /// A keybag that `open` accepts, the current one before the second copy.
  ///
  /// - Throws: what `open` said of the current one, when it accepts neither. A store that needs a newer program is not
  ///   opened by an older copy.
  package func firstUsable(
    _ open: ([UInt8]) throws(KeyManagementError) -> Keybag
  ) throws(KeyManagementError) -> Keybag {
    var reason: KeyManagementError?
    for copy in [current, previous] {
      do throws(KeyManagementError) {
        return try open(try copy.get())
      } catch {
        if case .unsupportedStore = error { throw error }
        reason = reason ?? error
      }
    }
    throw reason ?? .keybagMissing
  }
}
