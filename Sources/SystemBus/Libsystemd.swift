import CSystemd

/// The functions of libsystemd, for whoever has a bus, or a message of it: that has loaded them.
var sd: systemd_functions { unsafe Libsystemd.functions!.pointee }

/// The library, which is loaded when it is used first.
enum Libsystemd {
  nonisolated(unsafe) private static var error: UnsafePointer<CChar>?
  fileprivate nonisolated(unsafe) static let functions = unsafe systemd_load(&error)

  /// - Throws: where it is not installed, or too old.
  static func load() throws(BusError) {
    guard unsafe functions == nil else { return }
    let reason = unsafe error.map { unsafe String(cString: $0) } ?? ""
    throw BusError("libsystemd cannot be loaded; install it (on Debian: libsystemd0): \(reason)")
  }
}
