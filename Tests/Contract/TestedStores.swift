import ProtectfsIO

/// What kind of store the tests make that do not choose one.
package enum TestedStores {
  /// Contents are authenticated: with `PROTECTFS_TEST_AUTHENTICATED` in the environment.
  package static let areAuthenticated = Process.environment("PROTECTFS_TEST_AUTHENTICATED") != nil
}
