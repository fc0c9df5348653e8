import Foundation
import ProtectfsIO
import ProtectfsPolicy
import SimulatedDisk
import SystemPackage
import Testing

/// Sequences of calls on a simulated disk whose power is cut at each moment: the next mount finds what was made
/// durable, and of a name that was replaced the old file or the new one.
@Suite("Power cuts during calls") struct FileCrashTests {
  private struct Call: Sendable {
    let name: String
    var hasLongNames: Bool { name.contains("long") || name.contains("far") }
    /// Makes it, and says what has changed. Throws where there is nothing of the kind to do.
    let make: @Sendable (SimulatedMount, inout ModelTree) throws -> Void

    init(_ name: String, _ make: @escaping @Sendable (SimulatedMount, inout ModelTree) throws -> Void) {
      (self.name, self.make) = (name, make)
    }
  }

  private static let long = String(repeating: "long", count: 50)

  private static func text(_ name: String, _ count: Int) -> [UInt8] {
    Array(String(repeating: name, count: count).utf8.prefix(count))
  }

  private static func create(_ name: String) -> Call {
    Call("create \(name.prefix(5))") { mount, model in
      try mount.create(name, text(name + "new", 100))
      model.create(name, text(name + "new", 100))
    }
  }

  private static func synchronize(_ name: String) -> Call {
    Call("fsync \(name.prefix(5))") { mount, model in
      try mount.synchronize(name)
      model.synchronize(name)
    }
  }

  private static func rename(_ name: String, _ other: String) -> Call {
    Call("rename \(name.prefix(5)) to \(other.prefix(5))") { mount, model in
      try mount.rename(name, to: other)
      model.rename(name, to: other)
    }
  }

  private static func setClass(_ fileClass: ProtectionClass) -> Call {
    Call("a becomes \(fileClass)") { mount, model in
      try mount.setClass(of: "a", to: fileClass)
      model.setClass(of: "a", to: fileClass)
    }
  }

  private static let calls = [
    create("b"), create(long + "2"),
    Call("overwrite a") { mount, model in
      let new = text("over", 100)
      try mount.write(new, at: 0, to: "a")
      if let old = model["a"] { model.write("a", new + old.dropFirst(100)) }
    },
    Call("append to a") { mount, model in
      guard let old = model["a"] else { throw Errno.noSuchFileOrDirectory }
      try mount.write(text("more", 50), at: UInt64(old.count), to: "a")
      model.write("a", old + text("more", 50))
    },
    Call("cut a") { mount, model in
      guard let old = model["a"] else { throw Errno.noSuchFileOrDirectory }
      try mount.truncate("a", to: 5)
      model.write("a", Array(old.prefix(5)))
    },
    synchronize("a"), synchronize("b"), synchronize(long),
    Call("fsync of the directory") { mount, model in
      try mount.synchronizeDirectory()
      model.synchronizeDirectory()
    },
    rename("a", "b"), rename("b", "a"), rename("a", long), rename(long, "a"), rename(long, long + "2"),
    Call("unlink a") { mount, model in
      try mount.unlink("a")
      model.unlink("a")
    },
    Call("unlink long") { mount, model in
      try mount.unlink(long)
      model.unlink(long)
    },
    Call("link a") { mount, model in
      try mount.link("a", as: "c")
      model.link("a", as: "c")
    },
    Call("mkdir") { mount, model in
      try mount.makeDirectory("d")
      model.create(whole: "d", "directory")
    },
    Call("symlink") { mount, model in
      try mount.makeSymbolicLink("s", to: "target")
      model.create(whole: "s", "target")
    },
    Call("symlink to far away") { mount, model in
      try mount.makeSymbolicLink("s", to: String(repeating: "t/", count: 1500))
      model.create(whole: "s", String(repeating: "t/", count: 1500))
    },
    setClass(.complete), setClass(.none),
  ]

  private static let store = Result { try SimulatedMount.Store() }

  private struct Figures {
    var sequences = 0
    var images = 0
    var flushes = 0
    var problems: [String] = []
  }

  /// Runs the last call of a sequence with all power cuts.
  ///
  /// - Parameter pretended: the flush of that call which is not done.
  private func check(
    _ sequence: [Call], _ figures: inout Figures, keepsOrder: Bool = true, pretended: Int? = nil
  ) throws {
    let store = try Self.store.get()
    let disk = SimulatedDisk(store.image, keepsOrder: keepsOrder)
    var (before, model) = (ModelTree(), ModelTree())
    try disk.run {
      let mount = try SimulatedMount(store)
      for name in ["a", Self.long] {
        try mount.create(name, Self.text(name, 200))
        model.create(name, Self.text(name, 200))
        try mount.synchronize(name)
        model.synchronize(name)
      }
      try SimulatedMount.backing().synchronizeFileSystem()
      model.synchronizeDirectory()
      for (index, call) in sequence.enumerated() {
        _ = disk.takeCuts()
        figures.flushes = disk.flushes
        if index == sequence.count - 1 { disk.pretendedFlush = pretended.map { disk.flushes + $0 } }
        before = model
        do {
          try call.make(mount, &model)
        } catch let error as Errno where error == .noSuchFileOrDirectory || error == .fileExists {
          return model = ModelTree()
        }
      }
    }
    figures.flushes = disk.flushes - figures.flushes
    // There was nothing to do.
    if model.names.isEmpty { return }
    figures.sequences += 1
    let cuts = disk.takeCuts()
    var generator = SystemRandomNumberGenerator()
    for (number, cut) in cuts.enumerated() {
      let expected = number == cuts.count - 1 ? model : before.or(model)
      for image in cut.images(using: &generator) {
        figures.images += 1
        let problem = try SimulatedDisk(image).run { () throws -> String? in
          let mount: SimulatedMount
          do { mount = try SimulatedMount(store) } catch { return "it cannot be mounted: \(error)" }
          return expected.problem { name in
            do { return try mount.contents(name) } catch Errno.noSuchFileOrDirectory { return nil }
          }
        }
        if let problem {
          figures.problems.append(
            "\(sequence.map(\.name).joined(separator: ", ")); cut \(number + 1) of \(cuts.count): \(problem)")
        }
      }
    }
  }

  /// A disk that only pretends to flush is noticed at each fsync(2).
  @Test func flushesAreNeeded() throws {
    var count = 0
    for first in Self.calls {
      for second in Self.calls where second.name.hasPrefix("fsync") {
        var figures = Figures()
        try check([first, second], &figures, pretended: 1)
        if figures.flushes == 0 { continue }
        count += 1
        #expect(!figures.problems.isEmpty, "\(first.name), \(second.name)")
      }
    }
    #expect(count > 15)
  }

  private static let longest = ProcessInfo.processInfo.environment["PROTECTFS_SIMULATED_LENGTH"].flatMap { Int($0) }

  /// Of sequences of two, one in a few, or all of up to as many calls as `PROTECTFS_SIMULATED_LENGTH` says.
  @Test(arguments: 1...(longest ?? 2)) func whatWasMadeDurableIsThere(length: Int) throws {
    var sequences: [[Call]] = [[]]
    for _ in 0..<length { sequences = sequences.flatMap { start in Self.calls.map { start + [$0] } } }
    var figures = Figures()
    for (index, sequence) in sequences.enumerated() where Self.longest != nil || length == 1 || index % 7 == 0 {
      try check(sequence, &figures)
      // A long name is in a file of its own, which depends on the order.
      if !sequence.contains(where: \.hasLongNames) { try check(sequence, &figures, keepsOrder: false) }
    }
    print(
      "calls: \(figures.sequences) sequences of \(length), \(figures.images) states, \(figures.problems.count) problems"
    )
    for problem in Set(figures.problems).sorted().prefix(10) { Issue.record("\(problem)") }
    #expect(figures.problems.isEmpty && figures.images > 100 * length)
  }
}
