import ProtectfsPolicy
import SystemPackage

/// What may be found after a power cut: of each name, which files it may stand for, and of each file, which contents.
struct ModelTree {
  /// What a file may have, the name of its class behind it.
  private struct Contents: Equatable {
    /// Each byte is that of one of these, or zero where one is longer than another.
    var versions: [[UInt8]]
    var classes: Set<[UInt8]>
    /// Nothing of it was promised: it may not even open.
    var mayFail = false
    /// The keys of its class are gone: it does not open.
    var isErased = false

    /// Of one version, all is there.
    ///
    /// - Parameter tearsPages: whether parts of a page may be written by themselves: of a last page that grew, what was
    ///   behind the end is anything then.
    func allows(_ found: [UInt8], tearsPages: Bool) -> Bool {
      if isErased { return false }
      return classes.contains { name in
        guard found.suffix(name.count) == name[...] else { return false }
        let bytes = found.dropLast(name.count)
        if versions.contains(where: { $0[...] == bytes }) { return true }
        if versions.count == 1 { return false }
        let lengths = versions.map(\.count)
        // Up to 15 bytes more, where the file then ends a unit.
        guard lengths.min()!...lengths.max()! + 15 ~= bytes.count else { return false }
        return bytes.enumerated().allSatisfy { index, byte in
          versions.contains { index < $0.count ? $0[index] == byte : byte == 0 } || byte == 0 && isGrown(index)
            || isBehindTheEnd(index) || tearsPages && isInLastPage(index)
        }
      }
    }

    /// Whether a byte is in the block behind the last one of a version. Where a shrink is undone and what it has
    /// cleared there is not, it is neither old nor zero (ARCHITECTURE.md, "Crashes").
    private func isBehindTheEnd(_ index: Int) -> Bool {
      versions.contains { version in
        let end = (version.count + 15) / 16 * 16
        return version.count != end && end..<end + 16 ~= index
      }
    }

    /// Whether a byte is behind the end of a version, in a page that it has: up to 15 bytes say where its end is.
    private func isInLastPage(_ index: Int) -> Bool {
      versions.contains { $0.count..<($0.count + 15 + 4095) / 4096 * 4096 ~= index }
    }

    /// Whether a version ends before a byte, which may be a hole then.
    private func isGrown(_ index: Int) -> Bool { versions.contains { $0.count <= index } }
  }

  /// The files that a name may stand for; `nil` for none.
  private(set) var names: [String: Set<Int?>] = [:]
  /// The file that a name stands for.
  private(set) var current: [String: Int] = [:]
  private var contents: [Int: Contents] = [:]
  /// What a file has: the contents, and its class.
  private var bytes: [Int: [UInt8]] = [:]
  private var classes: [Int: [UInt8]] = [:]
  private var explicit: Set<Int> = []
  /// By names, the class that was durable there and that whatever takes the name has too.
  private var floors: [String: [UInt8]] = [:]
  /// Files whose names were durable, and that have been neither removed nor replaced since: they have a name.
  private var anchored: Set<Int> = []
  private var last = 0

  subscript(name: String) -> [UInt8]? { current[name].flatMap { bytes[$0] } }

  mutating func create(_ name: String, _ new: [UInt8]) {
    last += 1
    (bytes[last], classes[last]) = (new, Array(ProtectionClass.standard.name.utf8))
    contents[last] = Contents(versions: [[], new], classes: [classes[last]!], mayFail: true)
    set(name, to: last)
  }

  /// What is there as a whole, or not at all, and has no class. `nil` for what is not there any more.
  mutating func create(whole name: String, _ new: [UInt8]?, ofClass fileClass: ProtectionClass? = nil) {
    release(name)
    guard let new else { return set(name, to: nil) }
    last += 1
    (bytes[last], classes[last]) = (new, fileClass.map { Array($0.name.utf8) } ?? [])
    contents[last] = Contents(versions: [new], classes: [classes[last]!])
    set(name, to: last)
  }

  mutating func create(whole name: String, _ new: String) { create(whole: name, Array(new.utf8)) }

  mutating func createDirectory(_ name: String) {
    create(whole: name, Array("directory".utf8), ofClass: .standard)
  }

  mutating func write(_ name: String, _ new: [UInt8]) {
    guard let file = current[name] else { return }
    bytes[file] = new
    contents[file]?.versions.append(new)
  }

  mutating func resize(_ name: String, to count: Int) {
    guard let old = self[name] else { return }
    write(name, Array((old + [UInt8](repeating: 0, count: count)).prefix(count)))
  }

  mutating func setClass(of name: String, to fileClass: ProtectionClass) {
    guard let file = current[name] else { return }
    setClass(of: file, to: Array(fileClass.name.utf8))
  }

  private mutating func setClass(of file: Int, to fileClass: [UInt8]) {
    explicit.insert(file)
    classes[file] = fileClass
    contents[file]?.classes.insert(fileClass)
    floors = floors.filter { current[$0.key] != file }
  }

  /// The keys of a class are erased: what has it now is lost, and nothing else.
  mutating func erase(_ fileClass: ProtectionClass) {
    for (file, name) in classes where name == Array(fileClass.name.utf8) {
      bytes[file] = nil
      contents[file]?.isErased = true
      contents[file]?.mayFail = true
    }
  }

  mutating func synchronize(_ name: String) {
    guard let file = current[name], let now = bytes[file], let fileClass = classes[file] else { return }
    contents[file] = Contents(versions: [now], classes: [fileClass])
    // The file that it replaced may still be there.
    if explicit.contains(file), names[name]!.isSubset(of: [nil, file]) { floors[name] = fileClass }
  }

  mutating func synchronizeAll() {
    for name in names.keys {
      names[name] = [current[name]]
      synchronize(name)
    }
    anchored = Set(current.values)
  }

  /// - Parameter path: of the directory; `nil` for the topmost one.
  mutating func synchronizeDirectory(_ path: String? = nil) {
    for name in names.keys where Self.directory(of: name) == path {
      names[name] = [current[name]]
      // The directory's own name may be lost.
      if path.map({ current[$0].map(anchored.contains) ?? false }) ?? true, let file = current[name] {
        anchored.insert(file)
      }
    }
  }

  private static func directory(of path: String) -> String? {
    path.lastIndex(of: "/").map { String(path[..<$0]) }
  }

  mutating func rename(_ name: String, to other: String) {
    guard let file = current[name] else { return }
    // One that replaces a file of an explicit class takes that over.
    if let replaced = current[other], replaced != file, explicit.contains(replaced), let fileClass = classes[replaced] {
      setClass(of: file, to: fileClass)
    }
    release(other, but: file)
    set(other, to: file)
    set(name, to: nil)
    floors[name] = nil
    for (path, child) in current where Self.directory(of: path) == name {
      set(other + path.dropFirst(name.count), to: child)
      set(path, to: nil)
    }
  }

  mutating func exchange(_ name: String, _ other: String) {
    let (file, second) = (current[name], current[other])
    set(name, to: second)
    set(other, to: file)
  }

  mutating func unlink(_ name: String) {
    release(name)
    set(name, to: nil)
    floors[name] = nil
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
    // What was promised before the call may be changed by it.
    for (file, known) in contents {
      guard let changed = other.contents[file], changed != known else { continue }
      both.contents[file] = Contents(
        versions: known.versions + changed.versions, classes: known.classes.union(changed.classes),
        mayFail: known.mayFail || changed.mayFail, isErased: known.isErased && changed.isErased)
    }
    both.anchored.formIntersection(anchored)
    both.floors = floors.filter { both.floors[$0.key] == $0.value }
    return both
  }

  /// What is wrong with what was found under the names: `nil` for what is not there or cannot be read.
  ///
  /// - Parameters:
  ///   - mayFail: whether what was not made durable may fail to open.
  ///   - tearsPages: as for ``Contents/allows(_:tearsPages:)``.
  func problem(mayFail: Bool = true, tearsPages: Bool = false, _ found: (String) throws -> [UInt8]?) -> String? {
    var seen: Set<Int> = []
    for (name, files) in names.sorted(by: { $0.key < $1.key }) {
      // What is in a directory that is not there was promised no name of its own.
      if let directory = Self.directory(of: name), (try? found(directory)) == .some(nil) { continue }
      do {
        guard let now = try found(name) else {
          if !files.contains(nil) { return "\(name) is lost" }
          continue
        }
        let fitting = files.filter { file in
          file.flatMap { contents[$0] }?.allows(now, tearsPages: tearsPages) ?? false
        }
        if fitting.isEmpty { return "\(name) has other contents, of \(now.count) bytes" }
        if let floor = floors[name], !now.reversed().starts(with: floor.reversed()) {
          return "\(name) has another class"
        }
        seen.formUnion(fitting.compactMap(\.self))
      } catch {
        guard mayFail, files.contains(where: { $0.flatMap { contents[$0] }?.mayFail ?? false }) else {
          return "\(name) cannot be read: \(error)"
        }
        seen.formUnion(files.compactMap(\.self))
      }
    }
    return anchored.isSubset(of: seen) ? nil : "a file is under none of its names"
  }

  /// What is wrong with what a mount has.
  func problem(mayFail: Bool = true, tearsPages: Bool = false, on mount: SimulatedMount) -> String? {
    problem(mayFail: mayFail, tearsPages: tearsPages) { name in
      do { return try mount.contents(name) } catch Errno.noSuchFileOrDirectory { return nil }
    }
  }
}
