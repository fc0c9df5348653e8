import ProtectfsPolicy

// Decisions of the random generator: which name, file or range, often at or near an edge.
extension ModelWorker {
  static let longest = 262_144
  private static let farthest = 1 << 30
  private static let edges = [
    0, 1, 15, 16, 17, 31, 32, 4080, 4081, 4095, 4096, 4097, 4111, 4112, 8191, 8192, 8193, 131_071, 131_072, 131_073,
  ]

  func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }

  func offset(upTo limit: Int) -> Int {
    guard limit > 0 else { return 0 }
    switch Int.random(in: 0..<4, using: &random) {
    case 0: return min(limit, Self.edges.randomElement(using: &random)!)
    case 1:
      let page = Int.random(in: 0...limit / 4096, using: &random) * 4096
      return min(limit, max(0, page + Int.random(in: -1...1, using: &random)))
    default: return Int.random(in: 0...limit, using: &random)
    }
  }

  /// A range that is not empty, rarely a distant one.
  func range() -> Range<Int> {
    let limit = chance(1) ? Self.farthest : Self.longest
    let start = min(offset(upTo: limit), limit - 1)
    let count =
      chance(40) ? Int.random(in: 1...300, using: &random) : max(1, offset(upTo: chance(80) ? 20_000 : 140_000))
    return start..<min(start + count, limit)
  }

  /// A length for truncate(2).
  func length() -> Int { offset(upTo: chance(1) ? Self.farthest : Self.longest) }

  // MARK: Names

  private static let names: [ModelName] =
    ["a", "b", "c", "d", "e.txt", ".f", "ä ö", "new\nline", "-"].map { Array($0.utf8) }
    + [[1, 0xff, 0xfe, 0x80]]
    + [174, 175, 176, 177, 200, 254, 255].map { ModelName(repeating: UInt8(ascii: "n"), count: $0) }

  /// A name in a directory, which may exist already. In a shared root each worker has its own names.
  func name(in directory: Int) -> ModelName {
    let name = Self.names.randomElement(using: &random)!
    guard directory == ModelTree.root, !isAlone else { return name }
    return prefix + name.prefix(255 - prefix.count)
  }

  /// What this worker's names in a shared root start with.
  var prefix: ModelName { Array("\(number)-".utf8) }

  func directory() -> Int {
    let directories = tree.directories
    return directories.randomElement(using: &random)!
  }

  func place(_ kinds: Set<ModelInode.Kind> = [.file, .directory, .symbolicLink]) -> ModelPlace? {
    tree.places.filter { kinds.contains(tree[$0.inode].kind) }.randomElement(using: &random)
  }

  /// A new or used name in some directory.
  func target() -> (directory: Int, name: ModelName) {
    let directory = directory()
    return (directory, name(in: directory))
  }

  func handle(where isWanted: (ModelHandle) -> Bool) -> ModelHandle? {
    handles.filter(isWanted).randomElement(using: &random)
  }

  func show(_ handle: ModelHandle) -> String { "handle \(handle.number) (inode \(handle.inode))" }

  func anyClass() -> ProtectionClass { ProtectionClass.allCases.randomElement(using: &random)! }
}
