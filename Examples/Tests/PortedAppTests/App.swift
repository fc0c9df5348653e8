import DataProtection
import Foundation
import Mounting
import Testing

/// The ported app, and what it shows.
final class App {
  private let program: Program
  private var notices: [String] = []

  init(_ volume: Volume) throws {
    // Other mounts of this user would stand for the device too.
    program = try Program(
      Program.beside("PortedApp"), [volume.url("Documents").path],
      environment: ["PROTECTFS_MOUNT_POINT": volume.mountPoint.path])
  }

  /// Touches it, and returns what it shows.
  func ask(_ line: String) -> String {
    program.tell(line)
    while true {
      let answer = program.answer()
      guard answer.hasPrefix("# ") else { return answer }
      notices.append(String(answer.dropFirst(2)))
    }
  }

  /// What it shows by itself next: what it was told of the device.
  func nextNotice() throws -> String {
    if notices.isEmpty {
      let answer = program.answer()
      try #require(answer.hasPrefix("# "), "it said: \(answer)")
      return String(answer.dropFirst(2))
    }
    return notices.removeFirst()
  }

  /// The classes of its files, by their paths, as both of Foundation's calls tell them.
  func expectClasses(_ expected: [(file: String, protectionClass: ProtectionClass)], _ comment: Comment? = nil) {
    for (file, protectionClass) in expected {
      let constant = protectionClass.foundationName
      #expect(ask("class \(file)") == "\(constant) NSURL\(constant.dropFirst(2))", "\(file)")
    }
  }
}
