import Foundation
import ProtectfsLint

// What ProtectfsLintPlugin runs. Standard input lists files in three groups, with an empty line between: those to
// check, those to check if they were compiled, and those that are only looked at.

var isJSON = false
var isStrict = false
var options = ["--index-store": "", "--library": ""]
var arguments = CommandLine.arguments.dropFirst()
while let argument = arguments.popFirst() {
  switch argument {
  case "--json": isJSON = true
  case "--strict": isStrict = true
  default: options[argument] = arguments.popFirst()
  }
}

var groups: [Set<String>] = [[], [], []]
for group in groups.indices {
  while let path = readLine(), !path.isEmpty { groups[group].insert(path) }
}

do {
  let lint = Lint(checked: groups[0], checkedIfCompiled: groups[1], others: groups[2])
  let report = try lint.run(indexStore: options["--index-store"] ?? "", library: options["--library"] ?? "")
  print(isJSON ? try report.json : report.description)
  exit((isStrict ? report.isCleanEverywhere : report.isClean) ? 0 : 1)
} catch {
  print("error: \(error)")
  exit(1)
}
