import KeyManagement
import ProtectfsIO
import StoreFormat
import SystemPackage

/// Checks the store's own directory against a keybag that is known to be good. Never discards a keybag of this store,
/// since only that keybag may contain the keys of some files.
struct KeybagCheck {
  typealias Parse = ([UInt8]) throws(KeyManagementError) -> Keybag

  let copies: KeybagCopies
  /// The store's own directory.
  let store: SharedDescriptor
  let findings: Findings
  /// The good keybag, which also decides whether others are authentic.
  let keybag: Keybag
  /// Whether the good keybag may replace a bad one: its secret is not known to be gone.
  let mayReplace: Bool

  private static let name: PathName = "keybag"
  private static let previousName: PathName = "keybag.previous"

  func run(_ parse: Parse) throws(KeyManagementError) {
    // This comes first, because a keybag is written under the name of a leftover.
    checkLeftovers(parse)
    try checkCurrent(parse)
    try checkPrevious(parse)
  }

  private func checkCurrent(_ parse: Parse) throws(KeyManagementError) {
    let place = Place.ofStore(Self.name)
    do throws(KeyManagementError) {
      let current = try parse(try copies.current.get())
      // In this case the good keybag is the second copy, which stays there.
      if current != keybag { findings.report(.keybagStale, at: place, generations(current), mend: replaceCurrent) }
    } catch .keybagMissing {
      findings.report(.keybagMissing, at: place) { (_) throws(Errno) in try restore(Self.name) }
    } catch {
      findings.report(.keybagDamaged, at: place, error.reason, mend: replaceCurrent)
    }
  }

  private func checkPrevious(_ parse: Parse) throws(KeyManagementError) {
    let place = Place.ofStore(Self.previousName)
    do throws(KeyManagementError) {
      let previous = try parse(try copies.previous.get())
      let isCopy = previous == keybag
      let isBefore = keybag.record.follows(previous.record)
      if !isCopy && !isBefore { findings.report(.previousKeybagUnrelated, at: place, generations(previous)) }
    } catch .keybagMissing {
      findings.report(.previousKeybagMissing, at: place) { (_) throws(Errno) in try restore(Self.previousName) }
    } catch .unsupportedStore(let error) {
      findings.report(.previousKeybagDamaged, at: place, "\(error)")
    } catch {
      findings.report(.previousKeybagDamaged, at: place, error.reason, mend: replacePrevious)
    }
  }

  private func generations(_ other: Keybag) -> String {
    "generation \(other.generation); the good one's is \(keybag.generation)"
  }

  /// The second copy is the good keybag, and exists throughout.
  private func replaceCurrent(_ repair: Repair) throws(Errno) -> Finding.Outcome {
    guard mayReplace else { return .left }
    let moved = try repair.move(Self.name, from: store.descriptor)
    _ = try restore(Self.name)
    return moved
  }

  private func replacePrevious(_ repair: Repair) throws(Errno) -> Finding.Outcome {
    let moved = try repair.move(Self.previousName, from: store.descriptor)
    _ = try restore(Self.previousName)
    return moved
  }

  /// Writes the good keybag under a name that is not in use.
  private func restore(_ name: PathName) throws(Errno) -> Finding.Outcome {
    var file = try AtomicFile(replacing: name, in: store.descriptor, patience: .seconds(5))
    try unsafe keybag.bytes.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes, mayReplace: false) }
    return .fixed
  }

  /// Checks what an interrupted change of the keybag has left. A whole keybag that is in neither place is moved, since
  /// it may be the one that was being restored. Anything else contains nothing that the keybag does not.
  private func checkLeftovers(_ parse: Parse) {
    for leftover in AtomicFile.leftovers(of: Self.name, previous: Self.previousName) {
      guard let status = try? store.descriptor.status(of: leftover) else { continue }
      let isKeybag = isAnotherKeybag(leftover, parse)
      findings.report(.keybagLeftover, at: .ofStore(leftover)) { (repair) throws(Errno) in
        guard status.type == .regular, !isKeybag else { return try repair.move(leftover, from: store.descriptor) }
        try store.descriptor.unlink(leftover)
        return .fixed
      }
    }
  }

  private func isAnotherKeybag(_ name: PathName, _ parse: Parse) -> Bool {
    guard let file = try? store.descriptor.open(name, [.readOnly, .noFollow, .nonBlocking]),
      let bytes = try? file.readAll(limit: KeybagRecord.longest + 1), let other = try? parse(bytes)
    else { return false }
    return ![copies.current, copies.previous].contains { (try? $0.get()) == other.bytes }
  }
}

extension KeyManagementError {
  /// What is wrong with a keybag, without the advice in the error's description.
  var reason: String {
    switch self {
    case .keybagMalformed(let error), .unsupportedStore(let error): "\(error)"
    case .keybagUnreadable(let error): "\(error)"
    default: code
    }
  }
}
