import CProtectfsIndexStore
import FoundationEssentials

/// A package whose tests are running: `swift test` has just compiled it, in debug and with an index.
package struct BuiltPackage {
  /// The Swift files of its targets, but those of tests.
  let files: Set<String>

  /// - Parameter file: a source file of the package, as the compiler was given it.
  /// - Throws: if no directory above it has a manifest.
  package init(containing file: String) throws(LintError) {
    var root = file
    repeat {
      guard let slash = root.lastIndex(of: "/"), slash > root.startIndex else {
        throw LintError("no directory above \(file) has a Package.swift")
      }
      root = String(root[..<slash])
    } while !FileManager.default.fileExists(atPath: root + "/Package.swift")
    var files: Set<String> = []
    Self.add(filesBelow: root, isRoot: true, to: &files)
    self.files = files
  }

  /// Adds the files of targets: not what is hidden, as `.build` is, and not those of packages inside this one.
  private static func add(filesBelow directory: String, isRoot: Bool = false, to files: inout Set<String>) {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    guard isRoot || !names.contains("Package.swift") else { return }
    for name in names where !name.hasPrefix(".") && !(isRoot && ["Tests", "Plugins", "Package.swift"].contains(name)) {
      let path = "\(directory)/\(name)"
      if name.hasSuffix(".swift") {
        files.insert(path)
      } else if (try? FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType) == .typeDirectory
      {
        add(filesBelow: path, to: &files)
      }
    }
  }

  /// Checks the files that were compiled. The program of the tests lies beside the index, and runs with the toolchain's
  /// libraries.
  package func check() throws(LintError) -> LintReport {
    let (runtime, place) = (
      unsafe index_path_of_runtime().map { unsafe String(cString: $0) }, "swift/linux/libswiftCore.so"
    )
    guard let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"),
      let runtime, runtime.hasSuffix(place)
    else {
      throw LintError("the toolchain is not found: tests have to run with its libraries, as 'swift test' has them do")
    }
    let library = runtime.dropLast(place.count) + "libIndexStore.so"
    return try check(
      indexStore: program[...(program.lastIndex(of: "/") ?? program.startIndex)] + "index/store", library: library)
  }

  func check(indexStore: some StringProtocol, library: some StringProtocol) throws(LintError) -> LintReport {
    try Lint(checked: [], checkedIfCompiled: files).run(indexStore: String(indexStore), library: String(library))
  }
}
