import ProtectfsIO
import SimulatedDisk
import SystemPackage
import Testing

/// Each of the store's calls fails once, in each call of a program: the caller gets the error, what is there is old or
/// new, it is the same for the next mount, and the call can be repeated. A call that reports no error has done what was
/// asked for, and that is durable where it was promised.
@Suite("Failing calls") struct FileFaultTests {
  @Test(arguments: CallFailure.all) func everyCallFails(_ failure: CallFailure) throws {
    var count = 0
    for call in SimulatedCall.edges {
      let run = try FaultRun(call)
      count += try fail(failure, in: #require(run, "\(call.name)"))
    }
    // What makes a file and writes it cannot be repeated as it is.
    for call in SimulatedCall.onContents + SimulatedCall.onNames where !call.name.hasPrefix("create") {
      if let run = try FaultRun(call) { count += try fail(failure, in: run) }
    }
    #expect(count > 50, "\(count) calls failed")
  }

  /// Returns how many calls there are to fail.
  private func fail(_ failure: CallFailure, in run: FaultRun) throws -> Int {
    for number in 1... {
      guard let found = try run.fails(failure, at: number) else { return number - 1 }
      if let problem = found.problem { Issue.record("\(run.call.name); call \(number), \(found.hit): \(problem)") }
    }
    return 0
  }
}

/// A call of a program, without failures before.
private struct FaultRun {
  let call: SimulatedCall
  private let store: SimulatedMount.Store
  /// What is there before it.
  private let image: DiskImage
  private let old: ModelTree
  /// What may be there after a power cut, and what programs find.
  private let promised, new: ModelTree

  /// `nil` where there is nothing for it to do.
  init?(_ call: SimulatedCall) throws {
    self.call = call
    store = try SimulatedMount.Store.shared.get()
    let disk = SimulatedDisk(store.image)
    var model = ModelTree()
    try Simulation.repeatably(.steps) { [store] in
      try disk.run { try SimulatedCall.begin([call], SimulatedMount(store), &model) }
    }
    (image, old) = (disk.image, model)
    do {
      try Simulation.repeatably(.failure) { [store] in
        try disk.run { try call.make(SimulatedMount(store), &model) }
      }
    } catch Errno.noSuchFileOrDirectory {
      return nil
    }
    promised = model
    model.synchronizeAll()
    new = model
  }

  /// Makes the call with one of the store's failing; `nil` if there are not so many.
  func fails(_ failure: CallFailure, at number: Int) throws -> (hit: StoreCall, problem: String?)? {
    let disk = SimulatedDisk(image, keepsOrder: true)
    return try Simulation.repeatably(.failure) { try disk.run { try fails(failure, at: number, on: disk) } }
  }

  private func fails(
    _ failure: CallFailure, at number: Int, on disk: SimulatedDisk
  ) throws -> (hit: StoreCall, problem: String?)? {
    let mount = try SimulatedMount(store)
    var model = old
    disk.beginStep()
    disk.arm(failure, at: number)
    var reported: (any Error)?
    do { try call.make(mount, &model) } catch { reported = error }
    guard let hit = disk.disarm() else {
      if let reported { throw reported }
      return nil
    }
    guard let reported else { return (hit, try problemOfSuccess(mount, disk)) }
    if let error = reported as? Errno, error != failure.error { return (hit, "reported \(error)") }
    return (hit, try problemOfFailure(mount, disk))
  }

  /// No error was reported: what was asked for is done, and what was promised is durable.
  private func problemOfSuccess(_ mount: SimulatedMount, _ disk: SimulatedDisk) throws -> String? {
    let trial = CrashTrial(on: disk) { image, _ in
      try SimulatedDisk(image).run { try promised.problem(on: SimulatedMount(store)) }
    }
    var generator = Simulation.generator(0)
    if let problem = trial.run(using: &generator, atEnd: true).problems.first { return "no error: \(problem)" }
    mount.rekey()
    if let problem = new.problem(on: mount) { return "no error: \(problem)" }
    return try problemOfNextMount(disk)
  }

  /// An error was reported: what is there is old or new, for the next mount too, and the call can be repeated.
  private func problemOfFailure(_ mount: SimulatedMount, _ disk: SimulatedDisk) throws -> String? {
    mount.rekey()
    if let problem = problemOfEither(on: mount) { return problem }
    let next = try SimulatedDisk(disk.image).run { () throws -> String? in
      let errors = try SimulatedMount.errors(in: store)
      return try errors.isEmpty ? problemOfEither(on: SimulatedMount(store)) : "\(errors)"
    }
    if let next { return "for the next mount: \(next)" }
    // It may be done.
    if let problem = new.problem(on: mount) {
      var model = old
      do { try call.make(mount, &model) } catch { return "\(problem); again: \(error)" }
    }
    if let problem = new.problem(on: mount) { return "again: \(problem)" }
    return try problemOfNextMount(disk)
  }

  private func problemOfEither(on mount: SimulatedMount) -> String? {
    guard call.isWhole else { return old.or(promised).problem(mayFail: false, on: mount) }
    guard let problem = old.problem(on: mount), new.problem(on: mount) != nil else { return nil }
    return "neither old nor new: \(problem)"
  }

  private func problemOfNextMount(_ disk: SimulatedDisk) throws -> String? {
    let errors = try SimulatedMount.errors(in: store)
    guard errors.isEmpty else { return "afterwards: \(errors)" }
    return try new.problem(on: SimulatedMount(store)).map { "for the next mount, afterwards: \($0)" }
  }
}
