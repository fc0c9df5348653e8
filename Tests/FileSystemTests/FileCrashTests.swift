import Contract
import Foundation
import ProtectfsIO
import ProtectfsPolicy
import SimulatedDisk
import SystemPackage
import Testing

/// Sequences of calls on a simulated disk whose power is cut at each moment: the next mount, reading or writing, finds
/// what was made durable, and of a name that was replaced the old file or the new one.
@Suite("Power cuts during calls") struct FileCrashTests {
  private static let calls =
    switch Simulation.only {
    case "contents": SimulatedCall.onContents
    case "names": SimulatedCall.onNames + SimulatedCall.dependingOnOrder
    default: SimulatedCall.onContents + SimulatedCall.onNames + SimulatedCall.dependingOnOrder
    }

  /// - Parameters:
  ///   - keepsOrder: whether the disk has a journal.
  ///   - tearsPages: whether parts of a page are written by themselves.
  ///   - pretended: the flush of the last call which is not done.
  ///   - fault: what is wrong with the code.
  ///   - checks: whether `fsck` must find no error either.
  private static func trial(
    _ sequence: [SimulatedCall], keepsOrder: Bool = true, tearsPages: Bool = false, pretended: Int? = nil,
    with fault: PlantedFault? = nil, checks: Bool = false
  ) throws -> CrashTrial? {
    let store = try SimulatedMount.Store.shared.get()
    let disk = SimulatedDisk(
      store.image, keepsOrder: keepsOrder, tearsPages: tearsPages, tearsWrites: TestedStores.areAuthenticated)
    var (before, model) = (ModelTree(), ModelTree())
    let isPossible = try Simulation.repeatably(.steps) {
      try disk.run {
        let mount = try SimulatedMount(store)
        try SimulatedCall.begin(sequence, mount, &model)
        for (index, call) in sequence.enumerated() {
          disk.beginStep(pretending: index == sequence.count - 1 ? pretended : nil, with: fault)
          before = model
          do { try call.make(mount, &model) } catch let error as Errno where error.meansNothingToDo {
            // What is prepared for can be done.
            guard call.prepare.isEmpty else { throw error }
            return false
          }
        }
        return true
      }
    }
    guard isPossible else { return nil }
    return CrashTrial(on: disk) { [before, model] image, isDone in
      let expected = isDone ? model : before.or(model)
      let disk = SimulatedDisk(image)
      return try disk.run {
        if checks, case let errors = try SimulatedMount.errors(in: store), !errors.isEmpty { return "fsck: \(errors)" }
        let reader = try SimulatedMount(store, isReadOnly: true)
        if let problem = expected.problem(tearsPages: tearsPages, on: reader) { return "read-only: \(problem)" }
        if disk.image != image { return "read-only: the store was changed" }
        let writer = try SimulatedMount(store)
        if let problem = expected.problem(tearsPages: tearsPages, on: writer) { return problem }
        writer.rekey()
        return expected.problem(tearsPages: tearsPages, on: writer).map { "after rekeys: \($0)" }
      }
    }
  }

  private static let search = CrashSearch(calls, name: \.name) {
    try trial($0)
  }

  private static let withoutJournal = CrashSearch(
    (Simulation.only == "names" ? [] : SimulatedCall.onContents)
      + (Simulation.only == "contents" ? [] : SimulatedCall.onNames), name: \.name
  ) {
    try trial($0, keepsOrder: false)
  }

  /// In single calls at the edges of what changes.
  private static let edges = CrashSearch(SimulatedCall.edges, name: \.name) {
    try trial($0, checks: true)
  }

  private static let torn = CrashSearch(SimulatedCall.edges, name: \.name) {
    try trial($0, tearsPages: true)
  }

  /// With a journal, and without one: a disk without one may keep the record of a file when it has the new keybag.
  private static let erasures = [true, false].map { keepsOrder in
    (
      single: CrashSearch(SimulatedCall.erasures, name: \.name) {
        try trial($0, keepsOrder: keepsOrder, checks: true)
      },
      sequences: CrashSearch(SimulatedCall.betweenErasures, name: \.name) { try trial($0, keepsOrder: keepsOrder) }
    )
  }

  /// What has left a class outlives its erasure, and what has it is lost, whichever of that was made durable.
  @Test(.enabled(if: Simulation.only != "names")) func erasuresTakeWhatHasTheClass() async {
    var problems: [String] = []
    for (search, title) in zip(Self.erasures, ["erasures", "erasures without a journal"]) {
      problems += await search.single.problems(as: "\(title), one call", longest: 1, fewest: 10)
      problems += await search.sequences.problems(as: title, fewest: 10)
    }
    #expect(problems.isEmpty)
  }

  /// The same calls leave the same bytes: what was found once is found again, with its seed.
  @Test func aSequenceRepeats() throws {
    let stores = try (0..<2).map { _ in try Simulation.repeatably(.store) { try SimulatedMount.Store().image } }
    #expect(stores[0] == stores[1])
    let names = ["rotate", "rekey", "create b", "mkdir d"]
    let changes = SimulatedCall.onContents + SimulatedCall.onNames + SimulatedCall.dependingOnOrder
    let sequence = [SimulatedCall.rekeying] + changes.filter { names.contains($0.name) }
    #expect(sequence.count == 5)
    for length in 1...sequence.count {
      let states = try (0..<2).map { _ in
        var generator = Simulation.generator(UInt64(length))
        return try Self.trial(Array(sequence.prefix(length)))?.images(using: &generator)
      }
      #expect(states[0] != nil && states[0] == states[1], "\(sequence[length - 1].name)")
    }
  }

  /// A disk that only pretends to flush is noticed at each fsync(2); but where nothing was made in d, which promises
  /// nothing of its own name.
  @Test func flushesAreNeeded() throws {
    var count = 0
    for first in Self.calls {
      for second in Self.calls where second.name.hasPrefix("fsync") && second.name != "fsync of d" {
        guard let trial = try Self.trial([first, second], pretended: 1), trial.flushes > 0 else { continue }
        count += 1
        var generator = Simulation.generator(UInt64(count))
        #expect(!trial.run(using: &generator).problems.isEmpty, "\(first.name), \(second.name)")
      }
    }
    #expect(count > (Simulation.only == nil ? 15 : 5))
  }

  /// What three calls showed: a batch that is in the journal before the length it was made for is durable.
  @Test func aBatchIsForWhatIsDurable() throws {
    for names in [["a becomes complete", "cut a", "rekey"], ["cut a", "a becomes complete", "rekey"]] {
      let sequence = names.compactMap { name in SimulatedCall.onContents.first { $0.name == name } }
      var generator = Simulation.generator(0)
      let trial = try #require(try Self.trial(sequence))
      let found = trial.run(using: &generator)
      #expect(found.states > 10 && found.problems.isEmpty)
    }
  }

  @Test func whatWasMadeDurableIsThere() async {
    var problems = await Self.search.problems(as: "calls")
    problems += await Self.edges.problems(as: "edges", longest: 1)
    if Simulation.seconds > 0 { problems += await Self.torn.problems(as: "edges with torn pages", longest: 1) }
    problems += await Self.withoutJournal.problems(
      as: "calls without a journal", longest: Simulation.seconds > 0 ? .max : 2, fewest: 80)
    #expect(problems.isEmpty)
  }

  /// Faults of the code, and the calls that show them.
  private static let faults: [(PlantedFault, in: [SimulatedCall])] = [
    (
      PlantedFault("a batch is not in the journal when files are overwritten", [.fsync, .fdatasync]) {
        $0.hasPrefix("/.protectfs/rekey.")
      }, [SimulatedCall.rekeying]
    ),
    (
      PlantedFault("a batch is not written to the journal", [.pwrite, .pwritev2]) {
        $0.hasPrefix("/.protectfs/rekey.")
      },
      [SimulatedCall.rekeying]
    ),
    (
      PlantedFault("a file is not durable when its batch leaves the journal", [.fsync, .fdatasync]) { isFile($0) },
      [SimulatedCall.rekeying]
    ),
    (
      PlantedFault("what is behind a new length stays", [.pwrite, .pwritev2, .fallocate]) { isFile($0) },
      SimulatedCall.cutAndLengthen
    ),
    (
      PlantedFault("a sidecar is not durable when its name is", [.fsync, .fdatasync]) { $0.hasSuffix(".name") },
      SimulatedCall.edges
    ),
    (
      PlantedFault("a sidecar is written after its name", [.pwrite], .late) { $0.hasSuffix(".name") },
      SimulatedCall.edges
    ),
    (
      PlantedFault("the class that a file takes over comes late", [.fsetxattr, .setxattr], .late) { isFile($0) },
      SimulatedCall.edges
    ),
  ]

  private static func isFile(_ path: String) -> Bool { !path.hasPrefix("/.protectfs") && !path.hasSuffix(".name") }

  /// Faults of the code are found.
  @Test(.enabled(if: Simulation.length != nil, "it is for scripts/simulate.sh"), arguments: faults.indices)
  func plantedFaultsAreFound(index: Int) {
    let (fault, calls) = Self.faults[index]
    let search = CrashSearch(calls, name: \.name) { try Self.trial($0, with: fault) }
    #expect(search.finds(fault), "\(fault.name)")
  }
}

extension Errno {
  /// Whether a call fails with it where it has nothing to do.
  fileprivate var meansNothingToDo: Bool {
    [.noSuchFileOrDirectory, .fileExists, .directoryNotEmpty].contains(self)
  }
}
