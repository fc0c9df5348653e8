import KeyManagement
import LinuxIO
import StoreFormat
import SystemPackage

/// Checks the store's own directory against a keybag that is known to be good.
struct KeybagCheck {
  let copies: KeybagCopies
  /// The store's own directory.
  let store: SharedDescriptor
  let findings: Findings
  /// The good one, and what says whether another is authentic.
  let keybag: Keybag

  private static let name: PathName = "keybag"
  private static let previousName: PathName = "keybag.previous"

  func run(isAuthentic: ([UInt8]) throws(KeyManagementError) -> Keybag) throws(KeyManagementError) {
    try checkCurrent(isAuthentic)
    try checkPrevious(isAuthentic)
    checkLeftovers()
  }

  private func checkCurrent(_ parse: ([UInt8]) throws(KeyManagementError) -> Keybag) throws(KeyManagementError) {
    let place = Place.ofStore(Self.name)
    do throws(KeyManagementError) {
      _ = try parse(try copies.current.get())
    } catch .keybagMissing {
      findings.report(.keybagMissing, at: place) { (_) throws(Errno) in try restore(Self.name) }
    } catch {
      findings.report(.keybagDamaged, at: place, error.reason) { (repair) throws(Errno) in
        let moved = try repair.move(Self.name, from: store.descriptor)
        _ = try restore(Self.name)
        return moved
      }
    }
  }

  private func checkPrevious(_ parse: ([UInt8]) throws(KeyManagementError) -> Keybag) throws(KeyManagementError) {
    let place = Place.ofStore(Self.previousName)
    do throws(KeyManagementError) {
      let previous = try parse(try copies.previous.get())
      let isCopy = previous == keybag
      let isBefore = keybag.record.follows(previous.record)
      guard !isCopy && !isBefore else { return }
      findings.report(
        .previousKeybagUnrelated, at: place, "generation \(previous.generation); the keybag's is \(keybag.generation)",
        mend: replacePrevious)
    } catch .keybagMissing {
      findings.report(.previousKeybagMissing, at: place) { (_) throws(Errno) in try restore(Self.previousName) }
    } catch {
      findings.report(.previousKeybagDamaged, at: place, error.reason, mend: replacePrevious)
    }
  }

  private func replacePrevious(_ repair: Repair) throws(Errno) -> Finding.Outcome {
    let moved = try repair.move(Self.previousName, from: store.descriptor)
    _ = try restore(Self.previousName)
    return moved
  }

  /// Writes the good keybag under a name that is free.
  private func restore(_ name: PathName) throws(Errno) -> Finding.Outcome {
    var file = try AtomicFile(replacing: name, in: store.descriptor)
    try unsafe keybag.bytes.withBytes { (bytes) throws(Errno) in try unsafe file.commit(bytes, mayReplace: false) }
    return .fixed
  }

  /// What a change of the keybag leaves when it is cut short. It holds nothing that the keybag does not.
  private func checkLeftovers() {
    for leftover in AtomicFile.leftovers(of: Self.name, previous: Self.previousName) {
      guard let status = try? store.descriptor.status(of: leftover) else { continue }
      findings.report(.keybagLeftover, at: .ofStore(leftover)) { (repair) throws(Errno) in
        guard status.type == .regular else { return try repair.move(leftover, from: store.descriptor) }
        try store.descriptor.unlink(leftover)
        return .fixed
      }
    }
  }
}

extension KeyManagementError {
  /// What is wrong with a keybag, without the advice that its description gives.
  var reason: String {
    switch self {
    case .keybagMalformed(let error), .unsupportedStore(let error): "\(error)"
    case .keybagUnreadable(let error): "\(error)"
    default: code
    }
  }
}
