import CSystemCalls
import Glibc
import ProtectfsIO
import SystemPackage

/// Who makes a call.
struct Identity: Sendable, Equatable, CustomStringConvertible {
  let name: String
  let user: UInt32
  let group: UInt32
  var groups: [UInt32] = []

  static let root = Identity(name: "root", user: 0, group: 0)
  /// Whose the files of the tables are, where they are somebody's.
  static let owner = Identity(name: "owner", user: 65_531, group: 65_531)
  /// One of the files' group, by a supplementary group.
  static let member = Identity(name: "member", user: 65_532, group: 65_532, groups: [65_540, 65_531])
  /// One of the files' group, by the group proper.
  static let companion = Identity(name: "companion", user: 65_533, group: 65_531)
  static let stranger = Identity(name: "stranger", user: 65_534, group: 65_534)

  var description: String { name }
}

/// One call of a row, and what is expected of it.
struct Step: Sendable, CustomStringConvertible {
  enum Expectation: Sendable {
    case success
    case failure(Errno)
    /// What the backing file system does; POSIX leaves it open, or says it in more than one row.
    case same
  }

  let call: calls_call
  var name: String
  /// `nil` is an address that is not the program's.
  var path: PathName?
  var other: PathName?
  var numbers: [Int64] = []
  var data: [UInt8] = []
  /// How much room there is for what is read; for a call that reads.
  var capacity = 0
  /// The row's open file that the call is made on or makes; and the other one of a copy.
  var slot = 0
  var otherSlot = 0
  var identity = Identity.root
  var umask: UInt32 = 0o022
  var expectation = Expectation.success

  func by(_ identity: Identity) -> Step { changed { $0.identity = identity } }
  func masked(_ umask: UInt32) -> Step { changed { $0.umask = umask } }
  func fails(_ error: Errno) -> Step { changed { $0.expectation = .failure(error) } }
  /// Fails, or not.
  func fails(_ error: Errno?) -> Step { changed { $0.expectation = error.map { .failure($0) } ?? .success } }
  var compared: Step { changed { $0.expectation = .same } }
  /// On another of the row's open files.
  func on(_ slot: Int) -> Step { changed { $0.slot = slot } }

  /// Copies into another of the row's open files.
  func into(_ slot: Int) -> Step { changed { $0.otherSlot = slot } }

  private func changed(_ change: (inout Step) -> Void) -> Step {
    var step = self
    change(&step)
    return step
  }

  var description: String {
    var words = [name]
    for path in [path, other] {
      guard let path else { continue }
      let text = path.description
      words.append(text.utf8.count > 60 ? "(\(text.utf8.count) bytes)" : "'\(text)'")
    }
    words += numbers.map { $0 > 7 && $0 < 0o10_0000_0000 ? "0\(String($0, radix: 8))" : "\($0)" }
    if !data.isEmpty { words.append("(\(data.count) bytes)") }
    if slot != 0 { words.append("on \(slot)") }
    if identity != .root { words.append("by \(identity)") }
    return words.joined(separator: " ")
  }
}

/// A row of a table: what is done, in a directory of its own that is everybody's.
struct Row: Sendable {
  let name: String
  let steps: [Step]

  init(_ name: String, _ steps: [Step]) {
    self.name = name
    self.steps = steps
  }
}
