import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

// One call each on what it needs, where most can go wrong between two of the store's calls: at the edges of blocks of
// 16 bytes and units of 4096, where lengths on disk change most, and with names that have a file of their own.
extension SimulatedCall {
  static let edges = creations + renames + removals + classes + [rekeying] + attributes + resizings + writings

  /// A file that is durable before the call.
  static func make(
    _ name: String, _ contents: [UInt8], _ fileClass: ProtectionClass? = nil
  ) -> SimulatedCall.Body {
    { mount, model in
      try mount.create(name, contents)
      model.create(name, contents)
      if let fileClass {
        try mount.setClass(of: name, to: fileClass)
        model.setClass(of: name, to: fileClass)
        mount.rekey()
      }
    }
  }

  private static func makeDirectory(_ name: String) -> SimulatedCall.Body {
    { mount, model in
      try mount.makeDirectory(name)
      model.createDirectory(name)
    }
  }

  /// A directory with the sidecars of two files that never came to be, or whose names were removed.
  private static func makeDirectoryWithLeftovers(_ name: String) -> SimulatedCall.Body {
    { mount, model in
      try makeDirectory(name)(mount, &model)
      for number in 0..<2 { try mount.create("\(name)/\(long)\(number)", []) }
      try SimulatedMount.leaveSidecars()
    }
  }

  private static let creations = [("short", "short"), ("long", long + "2")].flatMap { length, name in
    [
      Self("create, \(length) name", make(name, [])),
      Self("mknod, \(length) name") { mount, model in
        try mount.makeFile(name)
        model.create(name, [])
      },
      Self("mkdir, \(length) name", makeDirectory(name)),
      Self("symlink, \(length) name") { mount, model in
        try mount.makeSymbolicLink(name, to: "target")
        model.create(whole: name, "target")
      },
      Self("mkfifo, \(length) name") { mount, model in
        try mount.makeFIFO(name)
        model.create(whole: name, "fifo")
      },
      Self("link, \(length) name") { mount, model in
        try mount.link("a", as: name)
        model.link("a", as: name)
      },
    ]
  }

  private static func rename(
    _ label: String, _ old: String, _ new: String, flags: RenameFlags = [], after prepare: Body...
  ) -> SimulatedCall {
    Self("rename, \(label)", after: prepare) { mount, model in
      try mount.rename(old, to: new, flags: flags)
      if flags == .exchange { model.exchange(old, new) } else { model.rename(old, to: new) }
    }
  }

  private static let renames = [
    rename("short to short", "a", "b"),
    rename("short to long", "a", long + "2"),
    rename("long to long", long, long + "2"),
    rename("long to short", long, "b"),
    rename("short over short", "a", "b", after: make("b", text("replaced", 50))),
    rename("long over long", long, long + "2", after: make(long + "2", text("replaced", 50))),
    rename("without replacing", "a", long + "2", flags: .noReplace),
    rename(
      "directory, long to long", long + "d", long + "e", after: makeDirectory(long + "d"), make(long + "d/x", [1])),
    rename("into another directory", "a", "d/" + long, after: makeDirectory("d")),
    rename(
      "directory over one with leftovers", "e", "d", after: makeDirectoryWithLeftovers("d"), makeDirectory("e"),
      make("e/x", [1])),
    rename("over a chosen class", "a", "b", after: make("b", text("replaced", 50), .complete)),
    rename("exchange, short and long", "a", long + "d", flags: .exchange, after: makeDirectory(long + "d")),
  ]

  private static func rmdir(_ name: String, _ label: String = "", after prepare: Body? = nil) -> SimulatedCall {
    Self("rmdir \(name.prefix(5))\(label)", after: [prepare ?? makeDirectory(name)]) { mount, model in
      try mount.removeDirectory(name)
      model.unlink(name)
    }
  }

  private static let removals = [
    unlink("a"), unlink(long), rmdir("d"), rmdir(long + "d"),
    rmdir("d", " with leftovers", after: makeDirectoryWithLeftovers("d")),
    rmdir(long + "d", " with leftovers", after: makeDirectoryWithLeftovers(long + "d")),
    Self(
      "unlink of one of two names",
      after: [
        { mount, model in
          try mount.link("a", as: long + "2")
          model.link("a", as: long + "2")
        }
      ]
    ) { mount, model in
      try mount.unlink(long + "2")
      model.unlink(long + "2")
    },
  ]

  private static let classes = [
    setClass(.complete), setClass(.completeUnlessOpen),
    Self("a directory becomes none", after: [makeDirectory("d")]) { mount, model in
      try mount.setClass(of: "d", to: .none)
      model.setClass(of: "d", to: .none)
    },
    Self("take a chosen class back", after: [make("b", text("b", 100), .complete)]) { mount, _ in
      try mount.removeClass(of: "b")
    },
  ]

  /// A new key for the contents and an attribute.
  static let rekeying = Self(
    "raise and rekey",
    after: [
      make("f", text("old", 9000)),
      { mount, model in
        try mount.setAttribute("user.note", of: "f", to: text("a remark", 8))
        model.create(whole: "f#user.note", "a remark")
      },
    ]
  ) { mount, model in
    try mount.setClass(of: "f", to: .complete)
    model.setClass(of: "f", to: .complete)
    mount.rekey()
  }

  private static func setAttribute(_ label: String, after prepare: [Body], _ new: [UInt8]?) -> SimulatedCall {
    Self(label, after: prepare) { mount, model in
      try mount.setAttribute("user.note", of: "a", to: new)
      model.create(whole: "a#user.note", new)
    }
  }

  private static let attributes: [SimulatedCall] = {
    let old: Body = { mount, model in
      try mount.setAttribute("user.note", of: "a", to: text("old", 3))
      model.create(whole: "a#user.note", text("old", 3))
    }
    return [
      setAttribute("set an attribute", after: [], text("new", 3)),
      setAttribute("replace an attribute", after: [old], text("new", 200)),
      setAttribute("remove an attribute", after: [old], nil),
      Self("chmod", after: [{ _, model in model.create(whole: "a#mode", "384") }]) { mount, model in
        try mount.setMode(of: "a", to: 0o640)
        model.create(whole: "a#mode", "416")
      },
      Self("chmod of a directory", after: [makeDirectory("d"), { _, model in model.create(whole: "d#mode", "448") }]) {
        mount, model in
        try mount.setMode(of: "d", to: 0o750)
        model.create(whole: "d#mode", "488")
      },
      Self("set an attribute of a directory", after: [makeDirectory("d")]) { mount, model in
        try mount.setAttribute("user.note", of: "d", to: text("new", 3))
        model.create(whole: "d#user.note", text("new", 3))
      },
    ]
  }()

  // MARK: Contents

  private static func resize(_ old: Int, _ new: Int) -> SimulatedCall {
    // Growth beyond the last unit passes through the end of that.
    let isWhole = old % 4096 == 0 || new <= (old + 4095) / 4096 * 4096
    return Self("truncate \(old) to \(new)", after: [make("f", text("old", old))], isWhole: isWhole) { mount, model in
      try mount.truncate("f", to: UInt64(new))
      model.resize("f", to: new)
      try synchronize("f").make(mount, &model)
    }
  }

  private static let lengths: [(Int, Int)] = [
    (0, 1), (1, 0), (1, 16), (5, 16), (16, 5), (15, 17), (20, 4096), (100, 4095), (4095, 4096), (4095, 4097),
    (4095, 5000), (4096, 4097), (4097, 4096), (4097, 4095), (4111, 4112), (4100, 20_000), (20_000, 4100), (10_000, 3),
  ]

  private static let resizings: [SimulatedCall] = lengths.map { resize($0, $1) } + [truncatedOnOpening]

  private static let truncatedOnOpening = Self(
    "open with O_TRUNC", after: [make("f", text("old", 5000))], isWhole: true
  ) {
    mount, model in
    try mount.openTruncating("f")
    model.resize("f", to: 0)
    try synchronize("f").make(mount, &model)
  }

  /// - Parameter hole: where a hole begins that the file ends with.
  private static func change(
    _ label: String, _ old: Int, hole: Int? = nil, _ range: Range<Int>, growing: Bool = true, filled: Bool = false,
    after others: [Body] = [], _ body: @escaping @Sendable (SimulatedMount) throws -> Void
  ) -> SimulatedCall {
    let prepare: Body = { mount, model in
      try make("f", text("old", hole ?? old))(mount, &model)
      guard hole != nil else { return }
      try mount.truncate("f", to: UInt64(old))
      model.resize("f", to: old)
    }
    return Self("\(label): \(range) of \(old)", after: others + [prepare]) { mount, model in
      try body(mount)
      let end = growing ? max(old, range.upperBound) : old
      var new = Array((model["f"]! + [UInt8](repeating: 0, count: end)).prefix(end))
      let changed = range.clamped(to: 0..<end)
      new.replaceSubrange(
        changed,
        with: (filled ? text("new", range.count) : [UInt8](repeating: 0, count: range.count)).prefix(changed.count))
      model.write("f", new)
      try synchronize("f").make(mount, &model)
    }
  }

  private static func write(_ label: String, _ old: Int, hole: Int? = nil, _ range: Range<Int>) -> SimulatedCall {
    change(label, old, hole: hole, range, filled: true) { mount in
      try mount.write(text("new", range.count), at: UInt64(range.lowerBound), to: "f")
    }
  }

  private static func allocate(
    _ label: String, _ old: Int, _ range: Range<Int>, _ mode: AllocationMode
  ) -> SimulatedCall {
    let clears = mode.contains(.punchHole) || mode.contains(.zeroRange)
    return change(label, old, clears ? range : old..<max(old, range.upperBound), growing: !mode.contains(.keepSize)) {
      try $0.allocate(mode, UInt64(range.lowerBound)..<UInt64(range.upperBound), of: "f")
    }
  }

  private static let writings = [
    write("write", 0, 0..<100), write("write", 5000, 10..<20), write("write", 5000, 4000..<4200),
    write("write", 100, 90..<110), write("write", 15, 15..<16), write("write", 4095, 4095..<4096),
    write("write", 4095, 4095..<5000), write("write", 4095, 9000..<9005), write("write", 100, 10_000..<10_003),
    write("write", 20_000, 100..<17_000), write("write", 100, 50..<30_000),
    write("write into a hole", 20_000, hole: 5, 5000..<5010),
    write("write into a hole", 20_000, hole: 5, 4096..<16_384),
    write("write into a hole", 20_000, hole: 5, 6000..<15_000),
    write("write into the end of a hole", 20_000, hole: 5, 19_000..<21_000),
    allocate("fallocate", 5, 0..<16, []), allocate("fallocate", 4095, 100..<20_000, []),
    allocate("fallocate, kept size", 4095, 100..<20_000, [.keepSize]),
    allocate("punch", 20_000, 100..<17_000, [.punchHole, .keepSize]),
    allocate("punch", 20_000, 4096..<8192, [.punchHole, .keepSize]),
    allocate("punch to the end", 20_000, 15_000..<30_000, [.punchHole, .keepSize]),
    allocate("zero and grow", 4095, 100..<20_000, [.zeroRange]),
    change("copy", 100, 50..<5050, filled: true, after: [make("source", text("new", 5000))]) {
      try $0.copy("source", 5000, to: "f", at: 50)
    },
  ]
}
