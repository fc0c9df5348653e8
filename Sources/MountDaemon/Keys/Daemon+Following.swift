import KeyManagement
import ProtectfsIO
import ProtectfsPolicy

// A keybag that others have put in place: an erasure of the store, by wrong passcodes that were tried beside this
// daemon; and, on a host, every change.
extension Daemon {
  /// Has a thread wait for that. It sleeps until a keybag is put in place.
  func watchKeybag() {
    do throws(KeyManagementError) {
      let watch = try openKeybagFile().watch()
      Thread(name: "keybag watch") { [self] in
        var refused: Keybag?
        repeat { follow(&refused) } while watch.wait()
      }.detach()
    } catch {
      log.warning(
        "what others do with the keybag is noticed when a secret is tried, not before", metadata: ["reason": "\(error)"]
      )
    }
  }

  /// - Parameter refused: the keybag that could not be gone on with, so that it is reported once.
  private func follow(_ refused: inout Keybag?) {
    let own = keybag.withLock { $0 }
    guard let current = try? readKeybag(openKeybagFile()), current.storeID == own.storeID else { return }
    if current.erasureTime != nil { return wipeErased(current) }
    guard let host = deviceKey.host, current != own, current != refused else { return }
    guard current.hasHost(host) else {
      refused = current
      return wipeRemovedHost()
    }
    guard current.generation > own.generation else { return }
    do throws(KeyManagementError) {
      try goOn(with: current, after: own)
      log.notice("the keybag was changed by another host", metadata: ["generation": "\(current.generation)"])
    } catch {
      refused = current
      log.error("a changed keybag is not gone on with until the next unlock", metadata: ["reason": "\(error.code)"])
    }
  }

  /// Goes on, on a host, with a keybag that another machine has changed. What was read under keys that it has erased
  /// goes from memory with them.
  private func goOn(with changed: Keybag, after own: Keybag) throws(KeyManagementError) {
    let erased = changed.classesErased(since: own)
    let successors = try withKeybag { (file) throws(KeyManagementError) -> [ProtectionClass: [HeldKey]] in
      guard try readSuccessor(file) == changed, let seal = hostSeal.withLock({ $0 }) else {
        throw .keybagChangedMeanwhile
      }
      let keys = try seal.keys(of: changed, deviceKey, file.effaceableSecret(of: changed), for: controller)
      machine.replaceKeys(keys.filter { !erased.contains($0.key) })
      if erased.isEmpty { adopt(changed) }
      return keys.filter { erased.contains($0.key) }
    }
    guard !erased.isEmpty else { return }
    machine.destroy(
      LockMachine.Destruction(classes: erased) { [self] in
        adopt(changed)
        return successors
      })
  }

  /// Takes all keys out of memory when the store has none any more for this host. The keybag is not gone on with:
  /// nothing shows who has made it.
  func wipeRemovedHost() {
    log.error("this machine is no host of the store any more: all keys are wiped")
    machine.cancelUnlocks()
    machine.lockEverything(includingNone: true)
  }
}
