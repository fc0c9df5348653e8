import StoreFormat

/// How often a wrong passcode may be tried: the delays of iOS (Apple Platform Security, "Passcodes and passwords").
package enum PasscodeDelay {
  /// After so many wrong passcodes, how many seconds none is tried.
  package static func seconds(after count: UInt32) -> UInt64 {
    switch count {
    case ...3: 0
    case 4: 60
    case 5: 5 * 60
    case 6: 15 * 60
    case 7: 3600
    case 8: 3 * 3600
    default: 8 * 3600
    }
  }
}

/// The wrong passcodes since the last right one.
package struct PasscodeAttempts: Sendable, Equatable {
  /// How many there were. The same one, tried again by the same process, is counted once.
  package private(set) var count: UInt32 = 0
  /// When the last was tried, in seconds since 1970.
  private var lastTime: UInt64 = 0
  /// Of the latest that this process has tried, ``PasscodeKey/fingerprint(of:)``; they are written nowhere.
  private var fingerprints: [UInt16] = []
  private static let mostFingerprints = 16
  /// That of the latest that a login program had accepted and the store refused, which is no guess.
  private var ofLogin: UInt16?

  /// None.
  package init() {}

  init(_ record: AttemptsRecord) {
    count = record.count
    lastTime = record.lastTime
  }

  /// What is known altogether: by the store, and by this process, which may have tried passcodes that it could not
  /// count there.
  init(stored: PasscodeAttempts, known: PasscodeAttempts) {
    self = known.count > stored.count ? known : stored
    // After a right secret, that another process may have had, each counts again.
    fingerprints = count > 0 ? known.fingerprints : []
    ofLogin = known.ofLogin
  }

  /// What a process must remember once the count is in the store.
  var afterWriting: PasscodeAttempts {
    var rest = PasscodeAttempts()
    (rest.fingerprints, rest.ofLogin) = (fingerprints, ofLogin)
    return rest
  }

  /// The record, without its tag; `nil` for none.
  var record: AttemptsRecord? { count == 0 ? nil : AttemptsRecord(count: count, lastTime: lastTime) }

  /// Begins the delay again after a clock was set back, which must neither shorten it nor draw it out; returns whether
  /// it was.
  mutating func beginAgain(at now: UInt64) -> Bool {
    guard count > 0, now < lastTime else { return false }
    lastTime = now
    return true
  }

  /// How many seconds no passcode is tried, at a time in seconds since 1970.
  package func delay(at now: UInt64) -> UInt64 {
    let delay = PasscodeDelay.seconds(after: count)
    guard now >= lastTime else { return delay }
    return delay - min(delay, now - lastTime)
  }

  /// Notes the passcode of an account that is not the store's: it does not count when a screen lock, which cannot say
  /// that it has accepted it, tries it again. Else each unlocking of the screen would bring a store nearer to its
  /// erasure after someone has set the account another password.
  mutating func note(ofLogin fingerprint: UInt16) { ofLogin = fingerprint }

  /// Notes a wrong passcode. One that was tried before does not count again. The count does not go beyond `most`.
  mutating func note(_ fingerprint: UInt16, at now: UInt64, most: UInt32 = .max) {
    guard fingerprint != ofLogin, !fingerprints.contains(fingerprint) else { return }
    if count < most { count += 1 }
    lastTime = now
    fingerprints.append(fingerprint)
    if fingerprints.count > Self.mostFingerprints { fingerprints.removeFirst() }
  }
}
