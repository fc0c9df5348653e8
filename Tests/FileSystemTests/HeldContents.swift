import FileProtection
import ProtectfsIO

extension ProtectedFile {
  /// Runs `body` while another thread works on the contents.
  func whileHeld<Result>(_ body: () throws -> Result) rethrows -> Result {
    let (isHeld, goesOn) = (Semaphore(), Semaphore())
    let holder = Thread(name: "holder") { [self] in
      beginRekeyStep()
      isHeld.post()
      goesOn.wait()
      endRekeyStep()
    }
    defer {
      goesOn.post()
      holder.join()
    }
    isHeld.wait()
    return try body()
  }
}
