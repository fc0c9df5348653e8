import ProtectfsIO
import SimulatedDisk
import SystemPackage
import Testing

/// Each of the store's calls fails once, in each call of a program: the caller gets the error, what is there is old or
/// new, it is the same for the next mount, and the call can be repeated. A caller that is told nothing has what it
/// asked for, and that is durable where it was promised.
@Suite("Failing calls") struct FileFaultTests {
  private static let calls = SimulatedCall.edges + SimulatedCall.onContents + SimulatedCall.onNames

  @Test(arguments: CallFailure.all) func everyCallFails(_ failure: CallFailure) throws {
    var count = 0
    for call in Self.calls {
      guard let run = try FaultRun(call) else { continue }
      for number in 1... {
        guard let found = try run.fails(failure, at: number) else { break }
        count += 1
        if let problem = found.problem { Issue.record("\(call.name); call \(number), \(found.hit): \(problem)") }
      }
    }
    #expect(count > 50, "\(count) calls failed")
  }
}

/// A call of a program, without failures before.
private struct FaultRun {
  private let call: SimulatedCall
  /// What is there before it.
  private let image: DiskImage
  private let old: ModelTree
  private let new: ModelTree

  /// `nil` where there is nothing for it to do.
  init?(_ call: SimulatedCall) throws {
    self.call = call
    let store = try SimulatedMount.Store.shared.get()
    let disk = SimulatedDisk(store.image)
    var (old, new) = (ModelTree(), ModelTree())
    try disk.run { try SimulatedCall.begin([call], SimulatedMount(store), &old) }
    image = disk.image
    do {
      new = old
      try disk.run { try call.make(SimulatedMount(store), &new) }
    } catch Errno.noSuchFileOrDirectory {
      return nil
    }
    (self.old, self.new) = (old, new)
  }

  /// Makes the call with one of the store's failing; `nil` if there are not so many.
  func fails(
    _ failure: CallFailure, at number: Int
  ) throws -> (hit: StoreCall, problem: String?)? {
    let disk = SimulatedDisk(image, keepsOrder: true)
    return try disk.run {
      let mount = try SimulatedMount(SimulatedMount.Store.shared.get())
      var model = old
      disk.beginStep()
      disk.arm(failure, at: number)
      var told: (any Error)?
      do { try call.make(mount, &model) } catch { told = error }
      guard let hit = disk.disarm() else { return nil }
      return (hit, try problem(told, failure.error, mount, disk))
    }
  }

  private func problem(_ told: (any Error)?, _ error: Errno, _ mount: SimulatedMount, _ disk: SimulatedDisk) throws
    -> String?
  {
    let expected = told == nil ? new : old.or(new)
    if let told = told as? Errno, told != error { return "the caller was told \(told)" }
    if told == nil {
      // What was promised is durable.
      let trial = CrashTrial(on: disk) { image, _ in
        try SimulatedDisk(image).run { try Self.found(new, SimulatedMount(SimulatedMount.Store.shared.get())) }
      }
      var generator = SystemRandomNumberGenerator()
      if let problem = trial.run(using: &generator, atEnd: true).problems.first { return "told nothing: \(problem)" }
    }
    mount.rekey()
    if let problem = Self.found(expected, mount) { return problem }
    if told != nil {
      var model = old
      do { try call.make(mount, &model) } catch {
        // It may be done.
        guard Self.found(new, mount) == nil else { return "again: \(error)" }
      }
    }
    if let problem = Self.found(new, mount) { return "again: \(problem)" }
    let next = try SimulatedMount(SimulatedMount.Store.shared.get())
    return Self.found(new, next).map { "for the next mount: \($0)" }
  }

  private static func found(_ expected: ModelTree, _ mount: SimulatedMount) -> String? {
    expected.problem { name in
      do { return try mount.contents(name) } catch Errno.noSuchFileOrDirectory { return nil }
    }
  }
}
