import Foundation
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// A call on a store whose topmost directory has the files `a` and one with a long name.
struct SimulatedCall: Sendable {
  /// Does something, and says what has changed.
  typealias Body = @Sendable (SimulatedMount, inout ModelTree) throws -> Void

  let name: String
  /// What is there before it, durable.
  let prepare: [Body]
  /// Whether a failure leaves the old state or the new one, and no bytes of both.
  let isWhole: Bool
  /// Throws where there is nothing of the kind to do.
  let make: Body

  init(_ name: String, after prepare: [Body] = [], isWhole: Bool = false, _ make: @escaping Body) {
    (self.name, self.prepare, self.isWhole, self.make) = (name, prepare, isWhole, make)
  }

  /// Makes the two files, and what some calls need.
  static func begin(_ calls: [SimulatedCall], _ mount: SimulatedMount, _ model: inout ModelTree) throws {
    for name in ["a", long] {
      try mount.create(name, text(name, 200))
      model.create(name, text(name, 200))
      try mount.synchronize(name)
      model.synchronize(name)
    }
    for prepare in calls.flatMap(\.prepare) { try prepare(mount, &model) }
    mount.clean()
    try SimulatedMount.backing().synchronizeFileSystem()
    model.synchronizeAll()
  }

  private static let cut = resize("cut a", "a", to: 5)
  private static let lengthen = resize("lengthen a", "a", to: 5000)

  /// What was cut off does not come back.
  static let cutAndLengthen = [
    cut,
    Self("lengthen a, fsync") { mount, model in
      try lengthen.make(mount, &model)
      try synchronize("a").make(mount, &model)
    },
  ]

  static let onContents = [
    write("overwrite a", text("over", 100), at: { _ in 0 }),
    write("append to a", text("more", 50), at: { $0 }),
    cut, lengthen,
    change("punch a") { mount, old in
      try mount.allocate([.punchHole, .keepSize], 0..<4096, of: "a")
      return [UInt8](repeating: 0, count: min(4096, old.count)) + old.dropFirst(4096)
    },
    synchronize("a"), setClass(.complete), setClass(.none),
    Self("rekey") { mount, _ in mount.rekey() },
    Self("rotate") { mount, _ in try mount.rotate(.standard) },
  ]

  static let onNames = [
    create("b"), synchronize("b"), synchronize("b", dataOnly: true), rename("a", "b"), rename("b", "a"),
    Self("fsync of the directory") { mount, model in
      try mount.synchronizeDirectory()
      model.synchronizeDirectory()
    },
    unlink("a"),
    Self("link a") { mount, model in
      try mount.link("a", as: "c")
      model.link("a", as: "c")
    },
    link("symlink", to: "target"),
  ]

  /// What they need is apart: a long name in a file of its own, a directory's name in another directory.
  static let dependingOnOrder = [
    create(long + "2"), synchronize(long), rename("a", long), rename(long, "a"), rename(long, long + "2"), unlink(long),
    link("symlink to far away", to: String(repeating: "t/", count: 1500)),
    Self("mkdir d") { mount, model in
      try mount.makeDirectory("d")
      model.createDirectory("d")
    },
    create("d/x"), synchronize("d/x"), rename("a", "d/x"), rename("d/x", "a"), rename("d", "e"), create("e/x"),
    Self("fsync of d") { mount, model in
      try mount.synchronizeDirectory("d")
      model.synchronizeDirectory("d")
    },
  ]

  static let long = String(repeating: "long", count: 50)

  static func text(_ name: String, _ count: Int) -> [UInt8] {
    Array(String(repeating: name, count: count / name.utf8.count + 1).utf8.prefix(count))
  }

  private static func create(_ name: String) -> Self {
    Self("create \(name.prefix(5))") { mount, model in
      try mount.create(name, text(name + "new", 100))
      model.create(name, text(name + "new", 100))
    }
  }

  static func synchronize(_ name: String, dataOnly: Bool = false) -> Self {
    Self("\(dataOnly ? "fdatasync" : "fsync") \(name.prefix(5))") { mount, model in
      try mount.synchronize(name, dataOnly: dataOnly)
      model.synchronize(name)
    }
  }

  private static func rename(_ name: String, _ other: String) -> Self {
    Self("rename \(name.prefix(5)) to \(other.prefix(5))") { mount, model in
      try mount.rename(name, to: other)
      model.rename(name, to: other)
    }
  }

  static func setClass(_ fileClass: ProtectionClass) -> Self {
    Self("a becomes \(fileClass)") { mount, model in
      try mount.setClass(of: "a", to: fileClass)
      model.setClass(of: "a", to: fileClass)
    }
  }

  static func unlink(_ name: String) -> Self {
    Self("unlink \(name.prefix(5))") { mount, model in
      try mount.unlink(name)
      model.unlink(name)
    }
  }

  private static func link(_ label: String, to target: String) -> Self {
    Self(label) { mount, model in
      try mount.makeSymbolicLink("s", to: target)
      model.create(whole: "s", target)
    }
  }

  private static func resize(_ label: String, _ name: String, to count: Int) -> Self {
    Self(label) { mount, model in
      try mount.truncate(name, to: UInt64(count))
      model.resize(name, to: count)
    }
  }

  /// - Parameter body: returns the contents of `a` after it.
  private static func change(
    _ name: String, _ body: @escaping @Sendable (SimulatedMount, [UInt8]) throws -> [UInt8]
  ) -> Self {
    Self(name) { mount, model in
      guard let old = model["a"] else { throw Errno.noSuchFileOrDirectory }
      model.write("a", try body(mount, old))
    }
  }

  private static func write(_ name: String, _ new: [UInt8], at offset: @escaping @Sendable (Int) -> Int) -> Self {
    change(name) { mount, old in
      let start = offset(old.count)
      try mount.write(new, at: UInt64(start), to: "a")
      return old.prefix(start) + new + old.dropFirst(start + new.count)
    }
  }
}
