import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// Trees that are deeper than a path may be long, or a process may have files open.
  @Suite struct DeepTreeTests {
    private static let depth = 1500

    /// From plaintext, and from a store.
    @Test func isRestored() throws {
      try Volume.store { volume in
        let (source, empty, full) = (
          volume.directory.appending("source"), volume.directory.appending("empty"), volume.directory.appending("full")
        )
        try #require(try Program.run(["cp", "-a", volume.backing.description, empty.description]).succeeded)
        try source.makeDirectory()
        try makeTree(in: source)
        try volume.mount()
        try volume.unlock()
        try restore(from: source, to: volume)
        try volume.unmount()
        try volume.shell("mv backing full; mv empty backing", in: "")
        try volume.mount()
        try volume.unlock()
        try restore(from: full, to: volume, volume.openingOptions)
      }
    }

    @Test func isSearchedAndListed() throws {
      try Volume.with { volume in
        try makeTree(in: volume.mountPoint, deepest: .complete)
        try volume.erase(.complete)
        let path = ([volume.mountPoint.description] + Array(repeating: "dd", count: Self.depth)).joined(separator: "/")
        let orphans = try run(["orphans", "list", volume.mountPoint.description])
        let found = Set(orphans.output.split(separator: "\n").map(String.init))
        #expect(orphans.succeeded && found == ["\(path)/a", "\(path)/z"], "\(orphans.output.suffix(200))")
        let manifest = try run(["manifest", volume.mountPoint.description])
        let lines = manifest.output.split(separator: "\n")
        #expect(manifest.succeeded && lines.count == 1 + Self.depth + 2 * 5, "\(lines.count): \(lines.last ?? "")")
      }
    }

    private func restore(from source: PathName, to volume: Volume, _ options: [String] = []) throws {
      let arguments = ["restore", "--json", "--from", source.description, volume.mountPoint.description] + options
      let result = try run(arguments)
      #expect(result.succeeded && result.output.contains(#""copied":10,"#), "\(result.output.suffix(400))")
      #expect(result.output.contains(#""directories":\#(Self.depth),"#), "\(result.output.suffix(400))")
      let again = try run(arguments)
      #expect(again.succeeded && again.output.contains(#""alreadyThere":10,"#), "\(again.output.suffix(400))")
    }

    /// Runs the command with few descriptors.
    private func run(_ arguments: [String]) throws -> Program.Result {
      try Program.run(
        ["bash", "-c", #"ulimit -n 256; exec "$@""#, "-", Command.path] + arguments, seconds: 300)
    }

    /// Directories in each other, with a file before and after the next one in every 375th.
    private func makeTree(in root: PathName, deepest: ProtectionClass? = nil) throws {
      var current = try Descriptor.open(root, [.path, .directory])
      for level in 0...Self.depth {
        if level % 375 == 0 {
          for name in ["a", "z"] as [PathName] {
            let file = try current.open(name, [.writeOnly, .create], mode: 0o600)
            if level == Self.depth, let deepest {
              try file.setAttribute(PathName(ProtectionClass.attributeName), to: Array(deepest.name.utf8))
            }
            try file.write(Array("\(name) \(level)".utf8))
          }
        }
        guard level < Self.depth else { break }
        try current.makeDirectory("dd", mode: 0o700)
        current = try current.open("dd", [.path, .directory])
      }
    }
  }
}
