import Glibc
import ProtectfsIO
import ProtectfsPolicy
import Synchronization
import SystemPackage
import Testing

/// Files of one class in a few directories, one of them with two names, and some of other classes.
struct RotatedTree {
  let root: PathName
  private(set) var files: [PathName] = []
  private(set) var others: [PathName] = []

  init(of fileClass: ProtectionClass, on volume: Volume, count: Int) throws {
    root = volume.path("tree")
    try root.makeDirectory(of: fileClass)
    for index in 0..<count {
      let directory = root.appending("\(index % 7)")
      if index < 7 { try directory.makeDirectory() }
      let file = directory.appending("\(index)")
      try file.write(pattern(index, count: 1000 + index))
      files.append(file)
    }
    try files[0].link(as: root.appending("a second name"))
    for other in ProtectionClass.allCases where other != fileClass {
      try volume.path(other.letter).makeDirectory(of: other)
      let file = volume.path(other.letter).appending("file")
      try file.write("of class \(other.letter)")
      others.append(file)
    }
  }

  /// Every file contains what was written.
  func expectContents(but left: PathName..., comment: Comment? = nil) throws {
    for (index, file) in files.enumerated() where !left.contains(file) {
      let contents = try file.contents()
      let isWhole = index == 0 ? contents.count == 1000 : contents == pattern(index, count: 1000 + index)
      #expect(isWhole, "\(file): \(comment ?? "")")
    }
    for file in others { #expect(try file.contents().count > 0, comment) }
  }

  func expectContents(_ text: String) throws { try expectContents(comment: Comment(rawValue: text)) }
}

/// Threads that change a tree until they are stopped. Each has its own files and knows their contents.
final class TreeMovers: Sendable {
  private static let made = Atomic(0)
  private let isStopped = Atomic(false)
  private let known = Mutex<[PathName: Int]>([:])
  private let failures = Mutex<[String]>([])
  private let threads = Mutex<[Thread]>([])

  /// The places of the files, in the order of their contents.
  var places: [PathName] { known.withLock { $0.sorted { $0.value < $1.value }.map(\.key) } }

  init(in root: PathName, _ files: [PathName]) {
    for (index, file) in files.enumerated() { known.withLock { $0[file] = index } }
    let started = (0..<3).map { number in
      Thread(name: "mover") { [self] in move(number, root, files) }
    }
    threads.withLock { [started] in $0 = started }
  }

  func stop() throws {
    isStopped.store(true, ordering: .relaxed)
    threads.withLock { $0 }.forEach { $0.join() }
    #expect(failures.withLock { $0 } == [])
  }

  /// The threads' files are where they left them.
  func expectContents() throws {
    for (file, index) in known.withLock({ $0 }) {
      let contents = try file.contents()
      let isWhole = index == 0 ? contents.count == 1000 : contents == pattern(index, count: 1000 + index)
      #expect(isWhole, "\(file)")
    }
  }

  private func move(_ number: Int, _ root: PathName, _ files: [PathName]) {
    var mine = files.enumerated().filter { $0.offset > 0 && $0.offset % 3 == number }
    var turn = 0
    do throws(Errno) {
      while !isStopped.load(ordering: .relaxed) {
        turn += 1
        let place = turn * 13 % mine.count
        let (index, file) = mine[place]
        let name = "\(Self.made.add(1, ordering: .relaxed).newValue)"
        let target = root.appending("\(turn % 7)").appending("moved.\(name)")
        switch turn % 5 {
        case 0:
          try file.rename(to: target)
        case 1:
          try file.link(as: target)
          try file.unlink()
        case 2:
          // As editors save: a new file replaces the old.
          try target.write(pattern(index, count: 1000 + index))
          try file.unlink()
        case 3:
          let aside = root.appending("directory.\(name)")
          try aside.makeDirectory()
          try file.rename(to: aside.appending("file"))
          let moved = root.appending("\(turn % 7)").appending("directory.\(name)")
          try aside.rename(to: moved)
          try moved.appending("file").rename(to: target)
          try moved.removeDirectory()
        default:
          try file.setExtendedAttribute(
            PathName(ProtectionClass.attributeName), to: Array((turn % 2 == 0 ? "A" : "B").utf8))
          continue
        }
        known.withLock {
          $0[file] = nil
          $0[target] = index
        }
        mine[place] = (index, target)
      }
    } catch {
      failures.withLock { $0.append("turn \(turn): \(error)") }
    }
  }
}
