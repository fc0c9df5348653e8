import Cryptography
import FoundationEssentials
import ProtectfsPolicy
import StoreFormat
import SystemPackage
import TPM

/// Why keys cannot be had: for programs a stable ``code``, for people what is wrong. What to type about it is the
/// command's to say.
package enum KeyManagementError: Error, Equatable, Sendable, CustomStringConvertible {
  case deviceKeyMissing(path: String)
  case deviceKeyUnreadable(path: String, Errno)
  case deviceKeyExposed(path: String)
  case deviceKeyMalformed(path: String)
  case foreignDeviceKey
  case keybagMissing
  case keybagUnreadable(Errno)
  case keybagUnwritable(Errno)
  /// Another process is changing the keybag, and has not finished in ``KeybagFile/patience``.
  case keybagInUse
  /// The new keybag is in its place, but was not made durable.
  case keybagNotDurable(Errno)
  /// The new keybag is in its place, but the second copy could not be made the same.
  case previousKeybagKept(Errno)
  case keybagMalformed(FormatError)
  case keybagAltered
  case keybagChangedMeanwhile
  /// The keybag in place lacks keys that the daemon has, so that a change of it would lose them.
  case keybagPutBack
  case unsupportedStore(FormatError)
  case invalidPasscode
  case invalidDefaultClass
  case wrongPasscode
  case recoveryKeyMistyped
  case wrongRecoveryKey
  case wrongKeyFile
  case keyFileMalformed
  /// Too many passcodes were wrong: none is tried for that many seconds.
  case passcodeDelayed(seconds: UInt64)
  /// The store was erased then, in seconds since 1970.
  case storeErased(at: UInt64)
  /// The secret without which the class keys do not unwrap is not there.
  case effaceableSecretMissing
  /// The new keybag is in its place, but the secret of the old one could not be overwritten.
  case effaceableSecretKept(Errno)
  /// The store was erased, but the keybag could not be replaced by a note of it.
  case erasureNotNoted(Errno)
  case keybagFull
  case invalidLabel
  case noSuchProtector
  case lastProtector
  /// Nothing says which of the passcodes is to be replaced.
  case severalPasscodes
  /// The keybag has no keys for this machine, which is to be one of its hosts.
  case hostUnknown
  /// A host opens the keys of its classes alone, and so cannot change a keybag.
  case hostsChangeNothing
  case hostExists
  /// The passcode of a host is changed with the one before alone.
  case hostPasscodeNeeded
  case hostWithoutClasses
  case hostFileMalformed(path: String)
  case pairingCodeMistyped
  /// No request was made with that pairing code.
  case noSuchRequest
  case notABackup
  case foreignKeybag
  case trustedPlatformModule(TPMError)
  /// A passcode takes so many bytes to try or to set, and the control group of the process leaves fewer by this limit.
  case tooLittleMemory(needed: UInt64, left: UInt64, limit: String)
  case cryptography(CryptographyError)

  /// Whether a change of the keybag failed when the new one was in its place already.
  package var isAfterChange: Bool {
    switch self {
    case .keybagNotDurable, .previousKeybagKept, .effaceableSecretKept, .erasureNotNoted: true
    default: false
    }
  }

  /// Whether a TPM could not be asked, or refused.
  var isOfTPM: Bool {
    if case .trustedPlatformModule = self { true } else { false }
  }

  /// A word for programs, which stays as it is.
  package var code: String {
    switch self {
    case .deviceKeyMissing: "device-key-missing"
    case .deviceKeyUnreadable: "device-key-unreadable"
    case .deviceKeyExposed: "device-key-exposed"
    case .deviceKeyMalformed: "device-key-malformed"
    case .foreignDeviceKey: "foreign-device-key"
    case .keybagMissing: "keybag-missing"
    case .keybagUnreadable: "keybag-unreadable"
    case .keybagUnwritable: "keybag-unwritable"
    case .keybagInUse: "keybag-in-use"
    case .keybagNotDurable: "keybag-not-durable"
    case .previousKeybagKept: "keybag-previous-kept"
    case .keybagMalformed: "keybag-malformed"
    case .keybagAltered: "keybag-altered"
    case .keybagChangedMeanwhile: "keybag-changed-meanwhile"
    case .keybagPutBack: "keybag-put-back"
    case .unsupportedStore: "unsupported-store"
    case .invalidPasscode: "invalid-passcode"
    case .invalidDefaultClass: "invalid-default-class"
    case .wrongPasscode: "wrong-passcode"
    case .recoveryKeyMistyped: "recovery-key-mistyped"
    case .wrongRecoveryKey: "wrong-recovery-key"
    case .wrongKeyFile: "wrong-key-file"
    case .keyFileMalformed: "key-file-malformed"
    case .passcodeDelayed: "passcode-delayed"
    case .storeErased: "store-erased"
    case .effaceableSecretMissing: "effaceable-secret-missing"
    case .effaceableSecretKept: "effaceable-secret-kept"
    case .erasureNotNoted: "erasure-not-noted"
    case .keybagFull: "keybag-full"
    case .invalidLabel: "invalid-label"
    case .noSuchProtector: "no-such-way-in"
    case .lastProtector: "last-way-in"
    case .severalPasscodes: "several-passcodes"
    case .hostUnknown: "host-unknown"
    case .hostsChangeNothing: "hosts-change-nothing"
    case .hostExists: "host-exists"
    case .hostPasscodeNeeded: "host-passcode-needed"
    case .hostWithoutClasses: "host-without-classes"
    case .hostFileMalformed: "host-file-malformed"
    case .pairingCodeMistyped: "pairing-code-mistyped"
    case .noSuchRequest: "no-such-request"
    case .notABackup: "not-a-backup"
    case .foreignKeybag: "foreign-keybag"
    case .trustedPlatformModule: "tpm"
    case .tooLittleMemory: "too-little-memory"
    case .cryptography: "cryptography"
    }
  }

  package var description: String {
    switch self {
    case .deviceKeyMissing(let path) where path.hasSuffix(".host"):
      "there is no host's file at \(path); 'protectfs host add' makes one"
    case .deviceKeyMissing(let path):
      "there is no device key at \(path); copy it from where the store was made, or open the store with its recovery key"
    case .deviceKeyUnreadable(let path, let error): "the device key \(path) cannot be read or written: \(error)"
    case .deviceKeyExposed(let path):
      "others can read the device key \(path), or own it; it must be yours or root's, with mode 0600"
    case .deviceKeyMalformed(let path): "\(path) is no device key: it must be a regular file of exactly 32 bytes"
    case .foreignDeviceKey:
      "this store was made with another device key; give that one, or open the store with its recovery key"
    case .keybagMissing: "the keybag is missing"
    case .keybagUnreadable(let error): "the keybag cannot be read: \(error)"
    case .keybagUnwritable(let error): "the keybag cannot be written, and is as it was: \(error)"
    case .keybagInUse: "another process is changing the keybag, and has not finished; nothing was changed"
    case .keybagNotDurable(let error):
      "the keybag was changed, but that may not outlive a power cut: \(error); until then the new one counts"
    case .previousKeybagKept(let error):
      "the keybag was changed, but its second copy could not be: \(error); it is when the store is next mounted. A new "
        + "passcode counts, but the old one opens the copy until then; a new class key is not used"
    case .keybagMalformed(let error): "the keybag is damaged (\(error))"
    case .keybagAltered: "the keybag was altered by someone who lacks its keys, or is damaged"
    case .keybagChangedMeanwhile: "someone else changed the keybag in between; try again"
    case .keybagPutBack:
      "another keybag was put in place, older than the one that the mount goes by or without some of its keys; nothing was "
        + "changed. Put the right one back, or copy the files out first: what was written since may open on this mount alone"
    case .unsupportedStore(.unsupportedVersion(_, version: 1)):
      "the store has format 1, which no release had; copy its files out with the version that made it"
    case .unsupportedStore(let error): "the store needs a newer protectfs (\(error))"
    case .invalidPasscode: "a passcode has 1 to \(Keybag.longestPasscode) bytes"
    case .invalidDefaultClass: "the default class cannot be none"
    case .wrongPasscode: "the passcode is wrong"
    case .recoveryKeyMistyped: "the recovery key is mistyped; compare it with what was printed when the store was made"
    case .wrongRecoveryKey: "this is not the recovery key of this store"
    case .wrongKeyFile: "the key file does not open this store"
    case .keyFileMalformed:
      "a key file has \(KeyFile.lengths.lowerBound) to \(KeyFile.lengths.upperBound) bytes"
    case .passcodeDelayed(let seconds):
      "too many passcodes were wrong; the next is tried in \(Self.words(seconds)), a recovery key or key file at once"
    case .storeErased(let time): "the store was erased on \(Self.date(time)); what was in it cannot be read any more"
    case .effaceableSecretMissing:
      "the secret that belongs to the keybag is not in .protectfs/effaceable"
    case .effaceableSecretKept(let error):
      "the keybag was changed, but the secret of the old one could not be overwritten: \(error); it is when the store is "
        + "next mounted"
    case .erasureNotNoted(let error):
      "the store was erased, and nothing in it opens it any more; but its keybag could not be replaced by a note of that: "
        + "\(error)"
    case .keybagFull: "the keybag is full: remove a protector, or finish a rotation, first"
    case .invalidLabel: "a label has at most \(KeybagRecord.Protector.longestLabel) bytes"
    case .noSuchProtector: "the store has no such protector"
    case .lastProtector: "this is the last protector; without it nothing would open the store"
    case .severalPasscodes:
      "the store has several passcodes, and this does not say which one is forgotten"
    case .hostUnknown: "the store has no keys for this machine, which is to be one of its hosts"
    case .hostsChangeNothing:
      "this machine is a host of the store, and has the keys of its classes alone: it changes no keys"
    case .hostWithoutClasses: "a host has the keys of one class at least; class D needs none"
    case .hostPasscodeNeeded:
      "the passcode of a host is changed with the one before; if that is forgotten, remove the host, and add it anew"
    case .hostExists: "this host was added already"
    case .hostFileMalformed(let path): "\(path) is no host's file of this store, or is damaged"
    case .pairingCodeMistyped: "this is no pairing code: it was mistyped"
    case .noSuchRequest: "no machine asks to become a host with this pairing code"
    case .notABackup: "this keybag was not exported"
    case .foreignKeybag: "this keybag is another store's"
    case .trustedPlatformModule(let error): "\(error)"
    case .tooLittleMemory(let needed, let left, let limit):
      "a passcode takes \((needed + (1 << 20) - 1) >> 20) MiB of memory, and \(limit) leaves \(left >> 20) MiB; nothing was changed"
    case .cryptography(let error): "\(error)"
    }
  }

  /// A number of seconds, for people: in the unit that says it best, rounded up.
  private static func words(_ seconds: UInt64) -> String {
    func count(_ number: UInt64, _ unit: String) -> String { "\(number) \(unit)\(number == 1 ? "" : "s")" }
    if seconds < 120 { return count(seconds, "second") }
    if seconds < 7200 { return count((seconds + 59) / 60, "minute") }
    return count((seconds + 3599) / 3600, "hour")
  }

  /// A time as a date and a time of day in UTC.
  package static func date(_ time: UInt64) -> String {
    Date(timeIntervalSince1970: Double(time)).formatted(.iso8601)
  }

  /// The error for a failure of cryptography. Where a key does not unwrap, and that says nothing of the secret that was
  /// given, the keybag was altered.
  init(_ error: CryptographyError) {
    self = error == .wrongKey ? .keybagAltered : .cryptography(error)
  }

  /// The error for a keybag that does not parse.
  package init(_ error: FormatError) {
    switch error {
    case .malformed: self = .keybagMalformed(error)
    case .unsupportedVersion, .unknownFeatures: self = .unsupportedStore(error)
    }
  }

  /// Runs cryptography whose failure means nothing but itself.
  static func wrapping<Result: ~Copyable>(
    _ body: () throws(CryptographyError) -> Result
  ) throws(KeyManagementError) -> Result {
    do throws(CryptographyError) { return try body() } catch { throw KeyManagementError(error) }
  }
}
