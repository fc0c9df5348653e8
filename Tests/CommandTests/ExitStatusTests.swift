import MountDaemon
import ProtectfsIO
import Testing

@testable import protectfs

@Suite struct ExitStatusTests {
  @Test func manualPageListsEach() throws {
    let root = #filePath.replacing("Tests/CommandTests/ExitStatusTests.swift", with: "")
    let file = try Descriptor.open(PathName(root + "Documentation/man/protectfs.1"), [.readOnly])
    let page = String(decoding: try file.readAll(limit: 1 << 20), as: UTF8.self)
    let section = try #require(page.split(separator: ".Sh EXIT STATUS").last?.split(separator: ".Sh ").first)
    let listed = section.split(separator: "\n").compactMap { line in
      line.hasPrefix(".It ") ? Int32(line.dropFirst(4)) : nil
    }
    #expect(listed == ExitStatus.allCases.map(\.rawValue))
  }

  @Test func optionsThatCannotBeMeantAreUsage() {
    var failure: CommandFailure?
    do throws(MountOptionError) { _ = try MountOptionList(["threads=0"]) } catch { failure = CommandFailure(error) }
    #expect(failure?.status == .usage)
    #expect(failure?.message.contains("'threads=0'") == true)
  }

  @Test(arguments: [
    ("/a", "/a", true), ("/a/b", "/a", true), ("/ab", "/a", false), ("/a", "/a/b", false), ("/a", "/", true),
  ])
  func pathsLieInDirectories(_ path: String, _ directory: String, _ expected: Bool) {
    #expect(CanonicalPath.lies(path, in: directory) == expected)
  }

  @Test(arguments: [(0.0, "0 s"), (2.5, "2.5 s"), (9.96, "10 s"), (10.4, "10 s"), (600, "600 s")])
  func secondsAreShort(_ seconds: Double, _ text: String) {
    #expect(seconds.seconds == text)
  }

  @Test func controlCharactersAreShown() {
    #expect("a\u{1B}[31m\nb é".printable == "a\\u{1B}[31m\\nb é")
  }
}
