import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage

/// The keybag and its second copy as stored. Either is sufficient to check the rest of the store.
package struct KeybagCopies: Sendable {
  let current: Result<[UInt8], KeyManagementError>
  let previous: Result<[UInt8], KeyManagementError>

  /// Reads both.
  ///
  /// - Throws: `keybagMissing` if neither exists.
  package init(backing: borrowing Descriptor) throws(KeyManagementError) {
    let file = try KeybagFile(backing: backing)
    do throws(KeyManagementError) { current = .success(try file.read()) } catch { current = .failure(error) }
    do throws(KeyManagementError) { previous = .success(try file.readPrevious()) } catch { previous = .failure(error) }
    if case .failure(.keybagMissing) = current, case .failure = previous { throw .keybagMissing }
  }

  /// The keybag to check with, which `open` accepts: the current one, unless its effaceable secret is gone and the
  /// second copy's is there. An old keybag that someone has put back opens nothing, and so does not help to check
  /// files.
  ///
  /// - Throws: the error of `open` for the current one, if it accepts neither. A store that needs a newer program is
  ///   not opened by an older copy.
  package func firstUsable(
    in backing: borrowing Descriptor, _ open: ([UInt8]) throws(KeyManagementError) -> Keybag
  ) throws(KeyManagementError) -> Keybag {
    let file = try KeybagFile(backing: backing)
    var first: Keybag?
    var reason: KeyManagementError?
    for copy in [current, previous] {
      do throws(KeyManagementError) {
        let keybag = try open(try copy.get())
        if first == nil ? file.hasSecret(of: keybag.record) != false : file.mayOpen(keybag) { return keybag }
        first = first ?? keybag
      } catch {
        if case .unsupportedStore = error { throw error }
        // It is whole, and has no keys for this host any more: an older one is not to be taken for it.
        if error == .hostUnknown, first == nil, reason == nil { throw error }
        reason = reason ?? error
      }
    }
    if let first { return first }
    throw reason ?? .keybagMissing
  }

  /// The copy that is not `keybag`, if it is authentic and can be opened. It may have class keys that `keybag` does not
  /// have.
  func other(
    than keybag: Keybag, in file: borrowing KeybagFile, deviceKey: borrowing VolumeDeviceKey
  ) -> Keybag? {
    for copy in [current, previous] {
      guard let bytes = try? copy.get(), let other = try? Keybag(parsing: bytes, deviceKey: deviceKey) else { continue }
      if other != keybag, file.mayOpen(other) { return other }
    }
    return nil
  }
}
