import Foundation
import Testing

@testable import ProtectfsLint

/// What is found in the modules of the directory Fixture, which are compiled for it.
struct LintTests {
  @Test func findsWhatIsMarkedAndNothingElse() throws {
    let fixture = try Fixture()
    let report = try fixture.lint()
    let found = report.findings.map { finding in
      Fixture.Mark(
        file: URL(fileURLWithPath: finding.file).lastPathComponent, line: finding.line, kind: finding.kind,
        isCertain: finding.isCertain)
    }
    let marks = try fixture.marks()
    #expect(Set(found).subtracting(marks) == [])
    #expect(marks.subtracting(found) == [])
    #expect(found.count == marks.count)
    #expect(report.silenced == 3)
    #expect(report.files == fixture.files.count)
    #expect(report.unchecked == [])
    #expect(!report.isClean)
    try theOutputIsComplete(report)
    try whatIsNotAskedForIsCounted(fixture, report)
    try variablesWithoutAClassAreNotReported(fixture)
    try whatTheLibrarySetsCanBeCopied(fixture)
    onlyTheLibraryIsTheImport(report)
    closuresHaveAdviceOfTheirOwn(report)
    try nothingToCheckIsNotClean(fixture)
    try aTestFindsThePackagesFiles(fixture, report)
    try whatHasChangedIsNotReported(fixture)
  }

  /// Classes that are named for the library's setters alone, or as constants, can be those of a file that is copied.
  private func whatTheLibrarySetsCanBeCopied(_ fixture: Fixture) throws {
    let copies: Set = [fixture.path("App/Copies.swift")]
    #expect(try fixture.lint { _ in Lint(checked: copies) }.findings == [])
    for other in ["Setters", "Constants"] {
      let report = try fixture.lint { _ in Lint(checked: copies, others: [fixture.path("App/\(other).swift")]) }
      #expect(report.findings.map(\.isCertain) == [false], "\(other)")
    }
    let names: Set = [fixture.path("App/Names.swift")]
    #expect(try fixture.lint { _ in Lint(checked: names) }.findings.map(\.isCertain) == [false, false])
  }

  /// A file that imports a module whose name starts as the library's lacks the import.
  private func onlyTheLibraryIsTheImport(_ report: LintReport) {
    let kit = report.findings.first { $0.file.hasSuffix("Storage/Kit.swift") }
    #expect(kit?.instead == "import DataProtection in this file")
  }

  /// In a closure the code is what the lint advises elsewhere, and an import does not help.
  private func closuresHaveAdviceOfTheirOwn(_ report: LintReport) {
    let inClosures = report.findings.filter { $0.file.hasSuffix("Closures.swift") }
    let reason = "in an async function, the only expression of a closure calls Foundation's method"
    #expect(inClosures.allSatisfy { $0.reason.hasSuffix(": \(reason)") })
    let calls = inClosures.map { $0.instead.prefix { $0 != ")" } }
    let write: Substring = "call write.callAsFunction(to: …, options: …"
    #expect(calls == [write, write, "call setAttributes.callAsFunction(…, ofItemAtPath: …", write])
    #expect(inClosures.allSatisfy { $0.instead.hasSuffix("), or give the closure a second statement") })
    let byFullName = report.findings.filter { $0.file.hasSuffix("App.swift") && $0.kind == .call }
    #expect(byFullName.map(\.instead) == ["write each argument behind its label: write(to: …, options: …)"])
  }

  private func nothingToCheckIsNotClean(_ fixture: Fixture) throws {
    let report = try fixture.lint { _ in Lint(checked: []) }
    #expect(!report.isClean)
    #expect(report.description.contains("error: There is no Swift file to check."))
  }

  /// The files of its targets, and not those of tests, of packages inside it, and what is hidden.
  private func aTestFindsThePackagesFiles(_ fixture: Fixture, _ report: LintReport) throws {
    let root = fixture.path("") + "/"
    for name in ["Package.swift", "Tests/a.swift", "Inner/Package.swift", "Inner/a.swift", ".build/a.swift"] {
      let file = URL(fileURLWithPath: root + name)
      try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data().write(to: file)
    }
    defer { try? FileManager.default.removeItem(atPath: root + "Package.swift") }
    let package = try BuiltPackage(containing: root + "Tests/a.swift")
    #expect(package.files.filter { !$0.contains("/DataProtection/") } == fixture.files)
    #expect(package.files.count > fixture.files.count)
    #expect(try package.check(indexStore: fixture.indexStore, library: Fixture.library()).findings == report.findings)
    #expect(throws: LintError.self) { try BuiltPackage(containing: "/nowhere/a.swift") }
  }

  /// The index and the toolchain's library are found from the program of the tests.
  @Test func aTestFindsItsIndex() throws {
    #expect(try BuiltPackage(containing: #filePath).check().files > 100)
  }

  private func theOutputIsComplete(_ report: LintReport) throws {
    let read = try JSONDecoder().decode(LintReport.self, from: Data(report.json.utf8))
    #expect(read.findings == report.findings)
    let first = try #require(report.findings.first { $0.kind == .conformance })
    #expect(first.description.hasPrefix("\(first.file):\(first.line):11: error: setAttributes(_:ofItemAtPath:): "))
    #expect(first.description.contains("FileManager satisfies Filing with Foundation's method"))
    #expect(report.description.contains("Findings silenced: 3."))
  }

  /// The same is found in a part of the files: what passes them a class is in the others.
  private func whatIsNotAskedForIsCounted(_ fixture: Fixture, _ all: LintReport) throws {
    let storage: Set = [fixture.path("Storage/Storage.swift")]
    let part = try fixture.lint { Lint(checked: storage, others: $0.subtracting(storage)) }
    #expect(part.findings == all.findings.filter { storage.contains($0.file) })
    #expect(part.findings.count { $0.isCertain } + part.elsewhere == all.findings.count { $0.isCertain })
    #expect(part.files == 1)
    let clean = try fixture.lint { Lint(checked: [fixture.path("App/Other.swift")], others: $0) }
    #expect(clean.isClean && clean.elsewhere > 0 && !clean.isCleanEverywhere)

    let compiled = try fixture.lint {
      Lint(checked: storage, checkedIfCompiled: $0.subtracting(storage).union(["/nowhere/a.swift"]))
    }
    #expect(compiled.findings == all.findings)
    #expect(compiled.unchecked == [])
  }

  /// Where no class gets into a variable, what is in variables loses none.
  private func variablesWithoutAClassAreNotReported(_ fixture: Fixture) throws {
    let relay: Set = [fixture.path("Storage/Relay.swift")]
    let direct = try fixture.lint { _ in Lint(checked: relay, others: [fixture.path("App/Direct.swift")]) }
    #expect(direct.findings == [])
    #expect(direct.isClean)
    let all = try fixture.lint { Lint(checked: relay, others: $0.subtracting(relay)) }
    #expect(all.findings.count == 3)
  }

  /// Lines may have moved in a file that is newer than the index, and a file that is gone has none.
  private func whatHasChangedIsNotReported(_ fixture: Fixture) throws {
    let (changed, gone) = (fixture.path("Storage/Storage.swift"), fixture.path("App/Other.swift"))
    try "\n".write(toFile: changed, atomically: true, encoding: .utf8)
    try FileManager.default.removeItem(atPath: gone)
    let report = try fixture.lint()
    #expect(report.unchecked == [gone, changed])
    #expect(!report.findings.contains { $0.file == changed })
    #expect(report.files == fixture.files.count - 2)
    #expect(report.description.contains("lacks what is in them now: 2 ("))
    let rest = try fixture.lint { Lint(checked: [changed], others: $0) }
    #expect(rest.findings == [])
    #expect(!rest.isClean)
  }

  @Test func anIndexThatIsMissingIsSaid() throws {
    let library = try Fixture.library()
    let error = #expect(throws: LintError.self) {
      try Lint(checked: ["/nowhere/a.swift"]).run(indexStore: "/nowhere", library: library)
    }
    #expect(error?.description.contains("with the index on") == true)
  }

  @Test func aLibraryThatIsMissingIsSaid() {
    #expect(throws: LintError.self) {
      try Lint(checked: []).run(indexStore: "/", library: "/nowhere/libIndexStore.so")
    }
  }
}
