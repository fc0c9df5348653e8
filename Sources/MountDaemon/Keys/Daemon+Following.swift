import KeyManagement
import ProtectfsIO
import ProtectfsPolicy

// A keybag that others have put in place: an erasure of the store, by wrong passcodes that were tried beside this
// daemon; and, on a host, every change. And a lock that another host asks for.
extension Daemon {
  /// Has a thread wait for that. It sleeps until a keybag is put in place.
  func watchKeybag() {
    do throws(KeyManagementError) {
      let file = try openKeybagFile()
      let watch = try file.watch()
      let known = lastHostLock(file)
      Thread(name: "keybag watch") { [self] in
        var reported: Keybag?
        var last = known
        var isSettled = false
        repeat {
          isSettled = look(&reported, &last)
        } while watch.wait(isSettled: isSettled)
      }.detach()
    } catch {
      log.warning(
        "what others do with the keybag is noticed when a secret is tried, not before", metadata: ["reason": "\(error)"]
      )
    }
  }

  /// Returns whether nothing is left to do that another look might bring.
  private func look(_ reported: inout Keybag?, _ last: inout LastHostLock) -> Bool {
    guard let file = try? openKeybagFile() else { return false }
    let hasFollowed = follow(file, &reported)
    return followHostLocks(file, &last) && hasFollowed
  }

  /// - Parameter reported: the keybag that could not be gone on with, so that it is reported once.
  private func follow(_ file: borrowing KeybagFile, _ reported: inout Keybag?) -> Bool {
    let own = keybag.withLock { $0 }
    guard let current = try? readKeybag(file) else { return false }
    guard current.storeID == own.storeID else { return true }
    if current.erasureTime != nil {
      wipeErased(current)
      return true
    }
    guard let host = deviceKey.host, current != own else {
      reported = nil
      return true
    }
    let isNew = current != reported
    reported = current
    guard current.hasHost(host) else {
      if isNew { wipeRemovedHost() }
      return true
    }
    do throws(KeyManagementError) {
      // An earlier one may have been put back, and changed since.
      if current.generation > own.generation {
        try goOn(with: current, after: own)
        log.notice("the keybag was changed by another host", metadata: ["generation": "\(current.generation)"])
        return true
      }
    } catch {
      guard isNew else { return false }
      log.error("a changed keybag is not gone on with yet", metadata: ["reason": "\(error.code)"])
    }
    // What it takes from this host goes all the same, as a host goes that it has no keys for.
    if isNew, let lost = LostClasses(current, after: own, [:], host) {
      let names = (lost.withheld + lost.erased).map(\.name).joined(separator: " ")
      log.error("a keybag that is not gone on with takes classes from this host", metadata: ["classes": "\(names)"])
      destroy(lost, adopting: false)
    }
    return current.generation <= own.generation
  }

  /// Goes on, on a host, with a keybag that another machine has changed.
  private func goOn(with changed: Keybag, after own: Keybag) throws(KeyManagementError) {
    let lost = try withKeybag { (file) throws(KeyManagementError) -> LostClasses? in
      guard try readSuccessor(file) == changed, let seal = hostSeal.withLock({ $0 }) else {
        throw .keybagChangedMeanwhile
      }
      let keys = try seal.keys(of: changed, deviceKey, file.effaceableSecret(of: changed), for: controller)
      let lost = LostClasses(changed, after: own, keys, deviceKey.host)
      machine.replaceKeys(keys.filter { lost?.successors[$0.key] == nil })
      if lost == nil { adopt(changed) }
      return lost
    }
    if let lost { destroy(lost) }
  }

  /// Takes everything of lost classes out of memory, what was read under their keys too, and goes on with the keybag
  /// that says so, unless another has come since. Not within ``withKeybag(_:)``.
  func destroy(_ lost: LostClasses, adopting: Bool = true) {
    machine.destroy(
      LockMachine.Destruction(classes: lost.erased + lost.withheld, withheld: lost.withheld) { [self] in
        adopting && adopt(lost.keybag) && keybag.withLock { $0 == lost.keybag } ? lost.successors : [:]
      })
  }

  /// Takes all keys out of memory when the keybag in place has none for this host. After a secret was refused.
  func wipeIfRemoved() {
    guard let host = deviceKey.host, let current = try? readKeybag(openKeybagFile()), !current.hasHost(host) else {
      return
    }
    wipeRemovedHost()
  }

  /// Takes all keys out of memory when the store has none any more for this host. The keybag is not gone on with:
  /// nothing shows who has made it.
  private func wipeRemovedHost() {
    log.error("this machine is no host of the store any more: all keys are wiped")
    machine.cancelUnlocks()
    machine.withholdEverything()
  }
}

/// Classes whose keys a host finds that another machine has erased, or has taken from it.
struct LostClasses {
  let keybag: Keybag
  let erased: [ProtectionClass]
  /// Those that it is to have no keys of any more.
  let withheld: [ProtectionClass]
  /// The keys that the erased ones have now.
  let successors: [ProtectionClass: [HeldKey]]

  /// `nil` where there is no such class. `keys` are those of the changed keybag.
  init?(_ changed: Keybag, after own: Keybag, _ keys: [ProtectionClass: [HeldKey]], _ host: HostKey?) {
    let (missing, missingBefore) = (changed.classesMissing(for: host), own.classesMissing(for: host))
    withheld = missing.filter { !missingBefore.contains($0) }
    let erased = changed.classesErased(since: own).filter { !missing.contains($0) }
    guard !erased.isEmpty || !withheld.isEmpty else { return nil }
    keybag = changed
    self.erased = erased
    successors = keys.filter { erased.contains($0.key) }
  }
}
