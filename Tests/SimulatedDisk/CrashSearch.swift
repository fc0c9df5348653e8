import Foundation

/// What power cuts may leave of the last of some steps, and what is wrong with that.
package struct CrashTrial {
  private let cuts: [PowerCut]
  private let problem: (DiskImage, _ isDone: Bool) throws -> String?

  /// How many flushes the step needed.
  package var flushes: Int { cuts.count - 1 }

  /// - Parameters:
  ///   - disk: on which the last step was made.
  ///   - problem: what the next start finds wrong with an image; `isDone` where the step had returned before the cut.
  package init(on disk: SimulatedDisk, problem: @escaping (DiskImage, _ isDone: Bool) throws -> String?) {
    cuts = disk.cutsOfStep
    self.problem = problem
  }

  /// What each cut may leave.
  ///
  /// - Parameter generator: of what is chosen where there are too many images.
  package func images(using generator: inout some RandomNumberGenerator) -> [Set<DiskImage>] {
    cuts.map { $0.images(using: &generator) }
  }

  /// Tries all cuts. Returns how many images there were, and the problems.
  ///
  /// - Parameters:
  ///   - generator: of what is chosen where there are too many images.
  ///   - atEnd: only the cut after the end of the step is tried.
  package func run(
    using generator: inout some RandomNumberGenerator, atEnd: Bool = false
  ) -> (states: Int, problems: [String]) {
    var (states, problems): (Int, [String]) = (0, [])
    var seen: Set<DiskImage> = []
    for (number, cut) in cuts.enumerated() where !atEnd || number == flushes {
      var images = cut.images(using: &generator)
      // At the end more is promised.
      if number < flushes {
        images.subtract(seen)
        seen.formUnion(images)
      }
      for image in images {
        states += 1
        do {
          let found = try Simulation.repeatably(.nextStart) { try problem(image, number == flushes) }
          guard let found else { continue }
          problems.append("cut \(number + 1) of \(cuts.count): \(found)")
        } catch {
          problems.append("cut \(number + 1) of \(cuts.count): \(error)")
        }
      }
    }
    return (states, problems)
  }
}

/// A search for crashes that lose something: sequences of steps, each on a disk of its own, whose power is cut at each
/// moment of the last step. Those of the steps before it are in shorter sequences.
package struct CrashSearch<Step: Sendable>: Sendable {
  private struct Figures {
    var sequences = 0
    var states = 0
    var problems: [String] = []
  }

  private let steps: [Step]
  private let name: @Sendable (Step) -> String
  private let trial: @Sendable ([Step]) throws -> CrashTrial?

  /// - Parameters:
  ///   - steps: of which the sequences are made.
  ///   - trial: of a sequence; `nil` where there is nothing for one of the steps to do.
  package init(
    _ steps: [Step], name: @escaping @Sendable (Step) -> String,
    trial: @escaping @Sendable ([Step]) throws -> CrashTrial?
  ) {
    (self.steps, self.name, self.trial) = (steps, name, trial)
  }

  /// Tries what scripts/simulate.sh asks for, or sequences of one, and prints how much that was. Returns what is wrong,
  /// up to ten of each length, and that too little was tried.
  ///
  /// - Parameters:
  ///   - longest: no sequences are longer than that.
  ///   - fewest: how many states there are at least, where no part of the calls is chosen.
  package func problems(as title: String, longest: Int = .max, fewest: Int = 100) async -> [String] {
    var problems: [String] = []
    for length in 1...min(Simulation.length ?? 1, longest) {
      let figures = await all(ofLength: length)
      problems += Self.report(figures, "\(title), \(length) each")
      if figures.states < fewest, Simulation.only == nil { problems.append("there are \(figures.states) states") }
    }
    if Simulation.seconds > 0, longest == .max {
      let figures = await some(until: .now + .seconds(Simulation.seconds))
      problems += Self.report(figures, "\(title), 3 to 8 each")
    }
    return problems
  }

  private static func report(_ figures: Figures, _ title: String) -> [String] {
    print(
      "\(title), seed \(Simulation.seed): \(figures.sequences) sequences, \(figures.states) states, \(figures.problems.count) problems"
    )
    return Array(Set(figures.problems).sorted().prefix(10))
  }

  /// Whether something is wrong with a state where the trials have a fault planted, and prints how many were looked at
  /// until then.
  package func finds(_ fault: PlantedFault) -> Bool {
    let states = statesUntilProblem()
    print("planted: \(fault.name): \(states.map { "found after \($0) states" } ?? "not found")")
    return states != nil
  }

  /// How many states are looked at until something is wrong: first sequences of one, then of two. `nil` if nothing is.
  private func statesUntilProblem() -> Int? {
    var states = 0
    for length in 1...2 {
      for number in 0..<count(ofLength: length) {
        // That a call fails outright is no crash that was found.
        guard let trial = try? trial(sequence(number, ofLength: length)) else { continue }
        var generator = Simulation.generator(UInt64(number))
        let found = trial.run(using: &generator)
        states += found.states
        if !found.problems.isEmpty { return states }
      }
    }
    return nil
  }

  private func count(ofLength length: Int) -> Int { (0..<length).reduce(1) { count, _ in count * steps.count } }

  private func sequence(_ number: Int, ofLength length: Int) -> [Step] {
    var rest = number
    return (0..<length).map { _ in
      defer { rest /= steps.count }
      return steps[rest % steps.count]
    }
  }

  /// All sequences of a length.
  private func all(ofLength length: Int) async -> Figures {
    let count = count(ofLength: length)
    return await run { $0 < count ? sequence(Int($0), ofLength: length) : nil }
  }

  /// Longer sequences, until an instant: the same for the same seed, as far as it comes.
  private func some(until end: ContinuousClock.Instant) async -> Figures {
    await run { index in
      guard ContinuousClock.now < end else { return nil }
      var generator = Simulation.generator(index)
      return (0..<Int.random(in: 3...8, using: &generator)).map { _ in steps.randomElement(using: &generator)! }
    }
  }

  /// Tries sequences by their numbers, until there is none, on all processors.
  private func run(_ sequence: @escaping @Sendable (UInt64) -> [Step]?) async -> Figures {
    let processors = UInt64(ProcessInfo.processInfo.activeProcessorCount)
    return await withTaskGroup(of: Figures.self) { group in
      for first in 0..<processors {
        group.addTask {
          var (figures, number) = (Figures(), first)
          while let sequence = sequence(number) {
            examine(sequence, number, &figures)
            number += processors
          }
          return figures
        }
      }
      return await group.reduce(into: Figures()) { all, part in
        all.sequences += part.sequences
        all.states += part.states
        all.problems += part.problems
      }
    }
  }

  private func examine(_ sequence: [Step], _ number: UInt64, _ figures: inout Figures) {
    let names = sequence.map(name).joined(separator: ", ")
    do {
      guard let trial = try trial(sequence) else { return }
      var generator = Simulation.generator(number)
      let (states, problems) = trial.run(using: &generator)
      figures.sequences += 1
      figures.states += states
      figures.problems += problems.map { "\(names); \($0)" }
    } catch {
      figures.problems.append("\(names): \(error)")
    }
  }
}
