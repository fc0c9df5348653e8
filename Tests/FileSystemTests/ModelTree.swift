import ProtectfsPolicy

/// What may be found after a power cut: of each name, which files it may stand for, and of each file, which contents.
struct ModelTree {
  enum Contents: Equatable {
    /// Nothing was promised: it may not even open.
    case anything
    /// It opens, and is of this or that, or in between.
    case readable
    case exactly([UInt8])
  }

  /// The files that a name may stand for; `nil` for none.
  private(set) var names: [String: Set<Int?>] = [:]
  /// The file that a name stands for.
  private(set) var current: [String: Int] = [:]
  private var contents: [Int: Contents] = [:]
  /// What a file has: the contents, and the class behind them.
  private var bytes: [Int: [UInt8]] = [:]
  private var classes: [Int: [UInt8]] = [:]
  /// Files whose names were durable, and that have been neither removed nor replaced since: they have a name.
  private var anchored: Set<Int> = []
  private var last = 0

  subscript(name: String) -> [UInt8]? { current[name].flatMap { bytes[$0] } }

  mutating func create(_ name: String, _ new: [UInt8], in fileClass: ProtectionClass = .standard) {
    last += 1
    bytes[last] = new
    classes[last] = Array(fileClass.name.utf8)
    contents[last] = .anything
    set(name, to: last)
  }

  /// What is there as a whole, or not at all.
  mutating func create(whole name: String, _ new: String) {
    create(name, Array(new.utf8))
    contents[last] = .exactly(Array(new.utf8))
  }

  mutating func write(_ name: String, _ new: [UInt8]) { change(name) { $0.bytes[$1] = new } }

  mutating func setClass(of name: String, to fileClass: ProtectionClass) {
    change(name) { $0.classes[$1] = Array(fileClass.name.utf8) }
  }

  private mutating func change(_ name: String, _ body: (inout ModelTree, Int) -> Void) {
    guard let file = current[name] else { return }
    body(&self, file)
    if contents[file] != .anything { contents[file] = .readable }
  }

  mutating func synchronize(_ name: String) {
    guard let file = current[name], let now = bytes[file], let fileClass = classes[file] else { return }
    contents[file] = .exactly(now + fileClass)
  }

  mutating func synchronizeDirectory() {
    for name in names.keys { names[name] = [current[name]] }
    anchored = Set(current.values)
  }

  mutating func rename(_ name: String, to other: String) {
    guard let file = current[name] else { return }
    release(other, but: file)
    set(other, to: file)
    set(name, to: nil)
  }

  mutating func unlink(_ name: String) {
    release(name)
    set(name, to: nil)
  }

  /// Whatever may have a name may lose it.
  private mutating func release(_ name: String, but file: Int? = nil) {
    anchored.subtract((names[name] ?? []).compactMap(\.self).filter { $0 != file })
  }

  mutating func link(_ name: String, as other: String) { set(other, to: current[name]) }

  private mutating func set(_ name: String, to file: Int?) {
    current[name] = file
    names[name, default: [nil]].insert(file)
  }

  /// A result of a call is a tree too: what is found may be as before it or as after it.
  func or(_ other: ModelTree) -> ModelTree {
    var both = other
    for (name, files) in names { both.names[name, default: [nil]].formUnion(files) }
    for (file, known) in contents where other.contents[file] != known {
      // What was promised before the call may be changed by it.
      both.contents[file] = known == .anything || other.contents[file] == .anything ? .anything : .readable
    }
    both.anchored.formIntersection(anchored)
    return both
  }

  /// What is wrong with what was found under the names: `nil` for what is not there or cannot be read.
  func problem(_ found: (String) throws -> [UInt8]?) -> String? {
    var seen: Set<Int> = []
    for (name, files) in names.sorted(by: { $0.key < $1.key }) {
      do {
        guard let now = try found(name) else {
          if !files.contains(nil) { return "\(name) is lost" }
          continue
        }
        let fitting = files.filter { file in
          guard let file, let wanted = contents[file] else { return false }
          return wanted == .anything || wanted == .readable || wanted == .exactly(now)
        }
        if fitting.isEmpty { return "\(name) has other contents, of \(now.count) bytes" }
        seen.formUnion(fitting.compactMap(\.self))
      } catch {
        guard files.contains(where: { $0.map { contents[$0] == .anything } ?? false }) else {
          return "\(name) cannot be read: \(error)"
        }
        seen.formUnion(files.compactMap(\.self))
      }
    }
    return anchored.isSubset(of: seen) ? nil : "a file is under none of its names"
  }
}
