import Foundation
import TestVectors
import Testing

/// Replays the inputs gathered by fuzzing, without libFuzzer. A failure ends the process; the file is named before it
/// is tried.
@Suite("Fuzzed inputs") struct FuzzTests {
  private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Fuzz")

  /// The inputs in one directory of a target, with their names.
  private static func inputs(of target: FuzzTarget, in directory: String) throws -> [(name: String, bytes: [UInt8])] {
    let url = root.appendingPathComponent("\(directory)/\(target.rawValue)")
    guard FileManager.default.fileExists(atPath: url.path) else { return [] }
    return try FileManager.default.contentsOfDirectory(atPath: url.path).sorted().map { name in
      (name, Array(try Data(contentsOf: url.appendingPathComponent(name))))
    }
  }

  @Test(arguments: FuzzTarget.allCases) func replay(_ target: FuzzTarget) throws {
    let corpus = try Self.inputs(of: target, in: "Corpus")
    #expect(!corpus.isEmpty, "a target has inputs to begin with: scripts/fuzz-seeds.py")
    for input in try corpus + Self.inputs(of: target, in: "Cases") {
      print("\(target.rawValue): \(input.name)")
      target.run(input.bytes)
    }
  }

  /// A few thousand changed inputs, the same each time.
  @Test(arguments: FuzzTarget.allCases) func mutants(_ target: FuzzTarget) throws {
    let corpus = try Self.inputs(of: target, in: "Corpus").map(\.bytes)
    var mutator = Mutator(corpus: corpus, longest: target.longestInput)
    for _ in 0..<(target.isSlow ? 300 : 3000) { target.run(mutator.next()) }
  }

  /// Directories of targets that no longer exist would never be replayed.
  @Test(arguments: ["Corpus", "Cases", "Dictionaries"]) func everyDirectoryIsOfATarget(_ directory: String) throws {
    let names = try FileManager.default.contentsOfDirectory(atPath: Self.root.appendingPathComponent(directory).path)
    for name in names {
      #expect(FuzzTarget(rawValue: name.replacingOccurrences(of: ".dict", with: "")) != nil, "\(name)")
    }
  }
}
