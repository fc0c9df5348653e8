import Cryptography
import ProtectfsIO
import SimulatedDisk
import StoreFormat
import SystemPackage
import Testing

@testable import Contents

/// Changes of contents in pages on a simulated disk whose power is cut at each moment. Pages and the length reach it in
/// any order; whatever is there verifies, each byte is one that it had since the last fsync(2), and so is the length.
@Suite("Power cuts during changes of pages") struct PageCrashTests {
  private static let name: PathName = "file"
  private static let key = [UInt8](repeating: 7, count: 32)

  /// A change, by what it does to a file and to what is expected of it.
  struct Step: Sendable {
    let name: String
    let make: @Sendable (HeldPages, inout ExpectedPages) throws -> Void

    static func write(
      _ name: String, keepingPart: Bool = false, _ place: @escaping @Sendable (UInt64) -> (offset: UInt64, count: Int)
    ) -> Step {
      Step(name: name) { file, expected in
        let (offset, count) = place(expected.length)
        let bytes = expected.write(count, at: offset)
        try file.write(bytes, at: Int(offset), keepingPart: keepingPart)
      }
    }

    static func write(_ offset: UInt64, _ count: Int) -> Step {
      write("write \(offset), \(count)") { _ in (offset, count) }
    }

    static func append(_ count: Int) -> Step { write("append \(count)") { ($0, count) } }

    static func truncate(_ length: UInt64) -> Step {
      Step(name: "truncate \(length)") { file, expected in
        expected.resize(to: length)
        try file.contents.resize(to: length, cipher: file.cipher, taking: nil)
      }
    }

    static func punch(_ page: UInt64) -> Step {
      Step(name: "punch \(page)") { file, expected in
        let range = page * 4096..<(page + 1) * 4096
        expected.zero(range)
        try file.contents.allocate([.punchHole, .keepSize], range, cipher: file.cipher)
      }
    }

    static let fsync = Step(name: "fsync") { file, expected in
      try file.contents.backing.synchronize(dataOnly: true)
      expected.wasMadeDurable()
    }
  }

  private static let group = PageLayout.groupLength

  private static let steps: [Step] =
    [
      .append(1), .append(4095), .append(4099), .write("fill a page") { ($0, Int(4096 - $0 % 4096)) },
      .write(0, 4096), .write(4060, 8), .write(group - 3, 5), .write(group, 4096), .write(group + 4096, 2),
      .write(group + 4090, 10), .fsync,
    ]
    + [1, 4064, 4065, group - 1, group, group + 1, group + 4097, group + 4095].map { .truncate($0) }
    + [0, 1, 126, 127].map { .punch($0) }

  /// What is there, durable, before the steps: nothing, a file of two pages, one that ends with the first group, and
  /// one that goes on behind it.
  private static let beginnings: [[(offset: UInt64, count: Int)]] = [
    [], [(0, 5000)], [(0, 8192), (group - 5000, 4999)], [(0, 8192), (group - 5000, 5000 + 4097)],
  ]

  /// What comes after a power cut: what was left there must not become contents.
  private static var next: [Step] {
    [.append(4099), .write("write 4200") { _ in (4200, 10) }, .truncate(group + 2 * 4096)]
  }

  private static func root() throws -> Descriptor { try Descriptor.open(SimulatedDisk.path, [.readOnly, .directory]) }

  private static func makeFile(in root: borrowing Descriptor) throws -> Descriptor {
    try root.open(name, [.readWrite, .create], mode: 0o600)
  }

  private static func trial(
    _ sequence: [Step], _ beginning: [(offset: UInt64, count: Int)], with fault: PlantedFault? = nil
  ) throws -> CrashTrial? {
    let disk = SimulatedDisk(tearsWrites: true)
    var (before, expected) = (ExpectedPages(), ExpectedPages())
    try disk.run {
      let root = try root()
      let file = try makeFile(in: root)
      let contents = try HeldPages(file, key: key)
      for part in beginning { try contents.write(expected.write(part.count, at: part.offset), at: Int(part.offset)) }
      try file.synchronize()
      try root.synchronize()
      expected.wasMadeDurable()
      // Those of a session of its own.
      let next = try HeldPages(file, key: key)
      for step in sequence {
        disk.beginStep(with: fault)
        before = expected
        try step.make(next, &expected)
      }
    }
    before.add(expected)
    return CrashTrial(on: disk) { [before, expected] image, isDone in
      try problem(of: image, isDone ? expected : before)
    }
  }

  /// What is wrong with what a cut has left: for who reads it, and for who changes it then and has the power cut again.
  private static func problem(of image: DiskImage, _ expected: ExpectedPages, again: Bool = true) throws -> String? {
    func opened() throws -> HeldPages {
      try HeldPages(root().open(name, [.readWrite]), key: key)
    }
    let found = try SimulatedDisk(image).run { try expected.found(opened()) }
    guard let truth = found.truth else { return found.problem }
    guard again else { return nil }
    for step in next where step.name.hasPrefix("write") == false || truth.length > 8192 {
      let disk = SimulatedDisk(image, tearsWrites: true)
      var expected = truth
      let problem: String? = try disk.run {
        let file = try opened()
        disk.beginStep()
        try step.make(file, &expected)
        expected.forgetEarlier()
        return try expected.found(HeldPages(file.contents, file.cipher)).problem
      }
      if let problem { return "then \(step.name): \(problem)" }
      // For scripts/simulate.sh.
      guard Simulation.length != nil else { continue }
      var later = truth
      later.add(expected)
      var generator = Simulation.generator(1)
      let problems = CrashTrial(on: disk) { image, _ in try Self.problem(of: image, later, again: false) }
        .run(using: &generator).problems
      if let problem = problems.first { return "then \(step.name), and a cut: \(problem)" }
    }
    return nil
  }

  /// Each call of a change fails in turn, in each manner: the file keeps its length, each byte is old or new, and the
  /// next changes find nothing that the failed one has left.
  @Test(arguments: beginnings.indices) func failuresLeaveOldOrNew(beginning: Int) throws {
    var count = 0
    for step in Self.steps where step.name != "fsync" {
      for failure in CallFailure.all {
        var number = 1
        while try Self.hasFailed(step, Self.beginnings[beginning], failure, at: number) { number += 1 }
        count += number - 1
      }
    }
    #expect(count > 100)
  }

  /// Makes a change, a call of which fails, and looks at what is there. Returns whether there was such a call.
  private static func hasFailed(
    _ step: Step, _ beginning: [(offset: UInt64, count: Int)], _ failure: CallFailure, at number: Int
  ) throws -> Bool {
    let disk = SimulatedDisk()
    return try disk.run {
      let file = try makeFile(in: root())
      var expected = ExpectedPages()
      let contents = try HeldPages(file, key: key)
      for part in beginning { try contents.write(expected.write(part.count, at: part.offset), at: Int(part.offset)) }
      expected.forgetEarlier()
      disk.arm(failure, at: number)
      let isDone = (try? step.make(contents, &expected)) != nil
      let hit = disk.disarm()
      if isDone { expected.forgetEarlier() }
      try? contents.contents.repair(contents.cipher)
      let title = "\(step.name), \(failure) of call \(number)"
      var found = try expected.found(contents)
      #expect(found.problem == nil, "\(title)")
      for later in next {
        guard var truth = found.truth, later.name != "write 4200" || truth.length > 8192 else { continue }
        try later.make(contents, &truth)
        truth.forgetEarlier()
        found = try truth.found(HeldPages(file, key: key))
        #expect(found.problem == nil, "\(title), then \(later.name)")
      }
      return hit != nil
    }
  }

  /// A page that changes while it is on its way to the disk would not open.
  @Test func whatIsOnItsWayIsWaitedFor() throws {
    let fault = PlantedFault("a page is not waited for", [.syncFileRange]) { _ in true }
    for step in [Step.write(0, 4096), .write(4060, 8), .append(100)] {
      for planted in [nil, fault] {
        var generator = Simulation.generator(0)
        let trial = try #require(try Self.trial([step, step], Self.beginnings[1], with: planted))
        let found = trial.run(using: &generator)
        #expect(found.problems.isEmpty == (planted == nil), "\(step.name)")
      }
    }
  }

  /// The ends page goes with a cut and comes with the growth behind it: the disk may have it as it was before both.
  @Test func theEndsPageGoesAndComes() throws {
    for growth in [Step.append(1), .truncate(Self.group + 1)] {
      var generator = Simulation.generator(0)
      let trial = try #require(try Self.trial([.truncate(4064), growth], Self.beginnings[1]))
      #expect(trial.run(using: &generator).problems == [], "\(growth.name)")
    }
  }

  /// A file is not said to be dense, after whatever has failed, if a page of it is a hole: it would not be read any
  /// more. What is cached by the kernel may be there in part.
  @Test(arguments: [0, 100, 4064, 5000, Int(group), Int(group) + 100]) func densityIsTrue(count: Int) throws {
    let written: [(offset: UInt64, count: Int)] = [
      (4096, 1000), (8192, 4096), (Self.group, 10), (Self.group + 4096, 1),
    ]
    let steps = [false, true].flatMap { keepsPart in
      (written + [(UInt64(count), 9000), (UInt64(count), 1)]).map { place in
        Step.write("write \(place)", keepingPart: keepsPart) { _ in place }
      }
    }
    var failures = 0
    for step in steps + Self.steps where step.name != "fsync" {
      for failure in CallFailure.all {
        var number = 1
        while try Self.isDenseRightly(after: step, count, failure, at: number) { number += 1 }
        failures += number - 1
      }
    }
    #expect(failures > 100)
  }

  /// Makes a change to a dense file of so many bytes, a call of which fails, and reads it all as what is then known.
  private static func isDenseRightly(
    after step: Step, _ count: Int, _ failure: CallFailure, at number: Int
  ) throws -> Bool {
    let disk = SimulatedDisk()
    return try disk.run {
      let file = try makeFile(in: root())
      var expected = ExpectedPages()
      let held = try HeldPages(file, key: key)
      if count > 0 { try held.write(expected.write(count, at: 0), at: 0) }
      #expect(held.contents.isDense)
      disk.arm(failure, at: number)
      _ = try? step.make(held, &expected)
      let hit = disk.disarm()
      try? held.contents.repair(held.cipher)
      let again = try HeldPages(file, key: key)
      let length = again.contents.length
      again.contents.expect(CleanContents(length: length, isDense: held.contents.isDense))
      do {
        for start in stride(from: 0, to: Int(length), by: 1 << 16) {
          _ = try again.read(start..<min(start + 1 << 16, Int(length)))
        }
      } catch {
        Issue.record("\(step.name) of \(count) bytes, \(failure) of call \(number): \(error)")
      }
      return hit != nil
    }
  }

  @Test(arguments: beginnings.indices) func eachByteIsOldOrNew(beginning: Int) async {
    let search = CrashSearch(Self.steps, name: \.name) { try Self.trial($0, Self.beginnings[beginning]) }
    let problems = await search.problems(as: "pages from \(beginning)", fewest: 50)
    #expect(problems.isEmpty)
  }
}

/// What may be found of a file after a power cut: what it was at each moment since it was made durable. Of its pages,
/// only those around the ends of the first group and at the beginning are looked at.
struct ExpectedPages: Sendable {
  fileprivate struct Moment: Sendable {
    var length: UInt64 = 0
    var pages = [UInt64: [UInt8]](uniqueKeysWithValues: ExpectedPages.numbers.map { ($0, ExpectedPages.zeros) })
  }

  fileprivate static let numbers: [UInt64] = [0, 1, 2, 3, 125, 126, 127, 128, 129]
  fileprivate static let zeros = [UInt8](repeating: 0, count: 4096)
  private var moments = [Moment()]
  private var value: UInt8 = 0

  var length: UInt64 { moments.last!.length }

  /// Writes new bytes, and returns them.
  mutating func write(_ count: Int, at offset: UInt64) -> [UInt8] {
    value += 1
    var moment = moments.last!
    moment.length = max(moment.length, offset + UInt64(count))
    moment.fill(offset..<offset + UInt64(count), with: value)
    moments.append(moment)
    return [UInt8](repeating: value, count: count)
  }

  mutating func resize(to length: UInt64) {
    var moment = moments.last!
    moment.fill(length..<max(length, moment.length), with: 0)
    moment.length = length
    moments.append(moment)
  }

  mutating func zero(_ range: Range<UInt64>) {
    var moment = moments.last!
    moment.fill(range, with: 0)
    moments.append(moment)
  }

  mutating func wasMadeDurable() { forgetEarlier() }

  /// Only what is there now may be found.
  mutating func forgetEarlier() { moments = [moments.last!] }

  /// What another has may be found too.
  mutating func add(_ other: ExpectedPages) { moments += other.moments }

  /// What is found, as what may be found from then on; or what is wrong with it.
  func found(_ file: HeldPages) throws -> (truth: ExpectedPages?, problem: String?) {
    var moment = Moment()
    moment.length = file.contents.length
    guard moments.contains(where: { $0.length == moment.length }) else {
      return (nil, "the length is \(moment.length)")
    }
    for number in Self.numbers where number * 4096 < moment.length {
      let start = Int(number) * 4096
      let bytes = try file.read(start..<min(start + 4096, Int(moment.length)))
      moment.pages[number]!.replaceSubrange(..<bytes.count, with: bytes)
      if moments.contains(where: { $0.pages[number]! == moment.pages[number]! }) { continue }
      let wrong = bytes.indices.first { index in !moments.contains { $0.pages[number]![index] == bytes[index] } }
      if let wrong { return (nil, "byte \(wrong) of page \(number) is \(bytes[wrong])") }
    }
    var truth = self
    truth.moments = [moment]
    return (truth, nil)
  }
}

extension ExpectedPages.Moment {
  fileprivate mutating func fill(_ range: Range<UInt64>, with value: UInt8) {
    for (number, _) in pages {
      let start = number * 4096
      let common = range.clamped(to: start..<start + 4096)
      guard !common.isEmpty else { continue }
      let part = Int(common.lowerBound - start)..<Int(common.upperBound - start)
      pages[number]!.replaceSubrange(part, with: [UInt8](repeating: value, count: part.count))
    }
  }
}
