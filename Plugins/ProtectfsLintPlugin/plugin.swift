import Foundation
import PackagePlugin

/// `swift package protection-lint`: builds the package, and has ProtectfsLintTool read what the compiler wrote of it.
@main
struct ProtectfsLintPlugin: CommandPlugin {
  func performCommand(context: PluginContext, arguments: [String]) throws {
    var extractor = ArgumentExtractor(arguments)
    if extractor.extractFlag(named: "help") > 0 { return print(Self.help) }
    let names = extractor.extractOption(named: "targets").flatMap { $0.split(separator: ",").map(String.init) }
    let isJSON = extractor.extractFlag(named: "json") > 0
    let isStrict = extractor.extractFlag(named: "strict") > 0
    let reportsDependencies = extractor.extractFlag(named: "dependencies") > 0
    guard extractor.remainingArguments.isEmpty else {
      throw Failure("unknown: \(extractor.remainingArguments.joined(separator: " ")); --help lists the options")
    }

    let (checked, others) = try context.package.targets(named: names)
    let build = try packageManager.build(
      .all(includingTests: checked.contains(where: \.isTest)), parameters: .init(configuration: .debug))
    guard build.succeeded else { throw Failure("the package does not build\n\(build.logText)") }
    // .build/plugins/ProtectfsLintPlugin/outputs
    let scratch = context.pluginWorkDirectoryURL.appending(path: "../../..").standardized
    let toolchain = try context.tool(named: "swiftc").url.resolvingSymlinksInPath().deletingLastPathComponent()
    let dependencies = context.package.otherPackages.flatMap(\.targets)
    let groups = reportsDependencies ? [checked, dependencies, others] : [checked, [], others + dependencies]

    let lint = Process()
    lint.executableURL = try context.tool(named: "ProtectfsLintTool").url
    lint.arguments = [
      "--index-store", scratch.appending(path: "debug/index/store").path,
      "--library", toolchain.appending(path: "../lib/libIndexStore.so").standardized.path,
    ]
    if isJSON { lint.arguments?.append("--json") }
    if isStrict { lint.arguments?.append("--strict") }
    let input = Pipe()
    lint.standardInput = input
    try lint.run()
    let files = groups.map { $0.flatMap(\.swiftFiles).map { $0 + "\n" }.joined() }.joined(separator: "\n")
    try input.fileHandleForWriting.write(contentsOf: Data(files.utf8))
    try input.fileHandleForWriting.close()
    lint.waitUntilExit()
    exit(lint.terminationStatus)
  }

  private static let help = """
    Finds calls of Foundation that lose a file's protection class on Linux.

    swift package protection-lint [--targets <name>,...] [--dependencies] [--strict] [--json]

      --targets       only these targets; tests are checked if they are named
      --dependencies  also report what is in the packages that this one depends on
      --strict        fail for classes that are certainly lost elsewhere too, which are only counted: in other targets,
                      and in the packages that this one depends on
      --json          print the findings as JSON

    A comment `// protection-lint:ignore` silences what is found in its line, or in the line below it.
    Exit status: 0 if nothing is found and everything could be checked. What is only counted does not change it.
    """
}

struct Failure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

extension Package {
  /// The targets of these names, or all but tests; and the others but tests, which call them.
  fileprivate func targets(named names: [String]) throws -> (checked: [any Target], others: [any Target]) {
    if let unknown = names.first(where: { name in !targets.contains { $0.name == name } }) {
      throw Failure("the package has no target \(unknown)")
    }
    func isChecked(_ target: any Target) -> Bool {
      names.isEmpty ? !target.isTest : names.contains(target.name)
    }
    return (targets.filter(isChecked), targets.filter { !isChecked($0) && !$0.isTest })
  }

  /// All packages that this one depends on, but the one that has DataProtection: it calls Foundation.
  fileprivate var otherPackages: [Package] {
    var packages: [Package] = []
    var rest = dependencies.map(\.package)
    while let next = rest.popLast() {
      if packages.contains(where: { $0.id == next.id }) { continue }
      packages.append(next)
      rest += next.dependencies.map(\.package)
    }
    return packages.filter { package in !package.targets.contains { $0.name == "DataProtection" } }
  }
}

extension Target {
  fileprivate var isTest: Bool { (self as? any SourceModuleTarget)?.kind == .test }

  fileprivate var swiftFiles: [String] {
    // The library's own modules call Foundation. An app's may have names that start alike.
    let isLibrary = ["DataProtection", "DataProtectionEssentials", "DataProtectionTesting"].contains(name)
    guard let target = self as? SwiftSourceModuleTarget, target.kind != .macro, !isLibrary else { return [] }
    return target.sourceFiles(withSuffix: "swift").map(\.url.path)
  }
}
