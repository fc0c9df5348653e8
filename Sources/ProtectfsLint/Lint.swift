import FoundationEssentials

/// Finds calls of Foundation that lose a protection class, by the symbols that the compiler wrote to an index.
///
/// Foundation on Linux accepts classes and ignores them. DataProtection has properties in the place of its methods; a
/// call that still reaches a method has that method's symbol in the index, whatever the call looks like.
package struct Lint {
  private let checked: Set<String>
  private let checkedIfCompiled: Set<String>
  private let others: Set<String>

  /// - Parameters:
  ///   - checked: the Swift files whose findings are reported, by the paths that the compiler was given.
  ///   - checkedIfCompiled: those of packages of which a part may not have been compiled.
  ///   - others: those that are looked at since they call the first, and whose findings are counted.
  package init(checked: Set<String>, checkedIfCompiled: Set<String> = [], others: Set<String> = []) {
    self.checked = checked
    self.checkedIfCompiled = checkedIfCompiled
    self.others = others
  }

  /// - Parameters:
  ///   - indexStore: the directory that the compiler's `-index-store-path` names.
  ///   - library: the toolchain's libIndexStore.
  package func run(indexStore: String, library: String) throws(LintError) -> LintReport {
    let indexed = try IndexStore(path: indexStore, library: library).files(wanted: ScannedFile.isWanted)
    // A package may have been compiled twice, for its plugins too.
    let newest = Dictionary(indexed.map { ($0.path, $0) }) { $0.compiled > $1.compiled ? $0 : $1 }
    var report = LintReport()
    var read: [(file: IndexedFile, text: SourceText, isReported: Bool)] = []
    for path in checked.union(checkedIfCompiled).union(others).sorted() {
      let isReported = checked.contains(path) || checkedIfCompiled.contains(path)
      guard let file = newest[path] else {
        if checked.contains(path) { report.unchecked.append(path) }
        continue
      }
      guard let text = Self.text(ofFileAt: path, notAfter: file.compiled) else {
        if isReported { report.unchecked.append(path) }
        continue
      }
      if isReported { report.files += 1 }
      read.append((file, SourceText(text), isReported))
    }
    var members: [String: ClassCarrier] = [:]
    for string in read.flatMap({ $0.text.classStrings() }) {
      if let member = string.member { members[member] = members[member] ?? string.carrier }
    }
    let files = read.map { ScannedFile($0.file, text: $0.text, members: members, isReported: $0.isReported) }
    let defined = Set(indexed.flatMap(\.occurrences).filter { $0.roles.contains(.definition) }.map(\.usr))
    LostClasses(files, defined: defined).report(to: &report)
    return report
  }

  /// The text of a file that has not changed since it was compiled.
  private static func text(ofFileAt path: String, notAfter compiled: (seconds: Int64, nanoseconds: Int64)) -> String? {
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
      let changed = attributes[.modificationDate] as? Date,
      // A Date is a Double, which is exact to less than a microsecond.
      changed.timeIntervalSince1970 <= Double(compiled.seconds) + Double(compiled.nanoseconds) / 1e9 + 1e-6,
      let data = FileManager.default.contents(atPath: path)
    else { return nil }
    return String(decoding: data, as: UTF8.self)
  }
}
