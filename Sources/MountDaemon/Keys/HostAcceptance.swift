import Cryptography
import KeyManagement
import ProtectfsIO
import ProtectfsPolicy
import StoreFormat

/// What makes a machine a host that asked for it: its request, which a pairing code has opened.
package struct HostAcceptance: ~Copyable {
  private var request: HostRequest

  /// Finds the request in a store.
  ///
  /// - Throws: `pairingCodeMistyped`, `noSuchRequest`.
  package init(
    _ code: borrowing SecretBytes, in backing: borrowing Descriptor, of storeID: StoreID
  ) throws(KeyManagementError) {
    guard let requests = try HostRequests(in: backing, of: storeID) else { throw .noSuchRequest }
    do throws(KeyManagementError) {
      request = try requests.request(of: PairingCode(parsing: code))
    } catch {
      throw error == .recoveryKeyMistyped ? .pairingCodeMistyped : error
    }
  }

  /// The host's identity, 16 bytes.
  package var id: [UInt8] { request.record.id }
  /// The name that it gives itself.
  package var label: String { request.record.label }
  /// The classes that it asks for.
  package var classes: [ProtectionClass] { request.record.classes }

  /// The change of the keybag.
  ///
  /// - Parameter classes: `nil` for those that the host asks for.
  consuming func edit(_ classes: [ProtectionClass]?) -> KeybagEdit {
    if let classes { request.classes = [ProtectionClass].ofHosts.filter(classes.contains) }
    return .addHost(request)
  }

  /// Removes the request when it was answered. One that stays can make the same host only.
  static func finish(_ id: [UInt8], in backing: borrowing Descriptor, of storeID: StoreID) {
    if let requests = try? HostRequests(in: backing, of: storeID) { try? requests.remove(id) }
  }
}
