import KeyManagement
import ProtectfsClient

extension ControlError {
  /// What a client is told of a failure that concerns keys.
  package init(_ error: KeyManagementError) {
    let code: Code =
      switch error {
      case .wrongPasscode, .wrongRecoveryKey, .recoveryKeyMistyped, .wrongKeyFile: .wrongPasscode
      case .passcodeDelayed: .passcodeDelayed
      case .storeErased: .storeErased
      case .lastProtector: .lastWayIn
      case .tooLittleMemory: .tooLittleMemory
      case .invalidPasscode, .invalidLabel, .keyFileMalformed, .noSuchProtector, .severalPasscodes,
        .pairingCodeMistyped, .noSuchRequest, .hostWithoutClasses:
        .invalidRequest
      case .keybagMissing, .keybagUnreadable, .keybagMalformed, .keybagAltered, .unsupportedStore,
        .effaceableSecretMissing:
        .keybagCorrupt
      case .keybagUnwritable, .keybagInUse, .keybagChangedMeanwhile, .keybagPutBack: .keybagNotWritten
      default: .failed
      }
    self.init(code, error.description)
  }
}
