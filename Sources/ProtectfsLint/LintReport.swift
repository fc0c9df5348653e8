import FoundationEssentials

/// What was found in a package.
package struct LintReport: Codable, Sendable {
  package internal(set) var findings: [Finding] = []
  /// How many findings comments silence.
  package internal(set) var silenced = 0
  /// How many files were checked.
  package internal(set) var files = 0
  /// How many classes are certainly lost in files whose findings are not reported.
  package internal(set) var elsewhere = 0
  /// The package's files that the index lacks, or that have changed since they were compiled.
  package internal(set) var unchecked: [String] = []

  /// Whether nothing was found, and every file could be checked, of which there is one at least.
  package var isClean: Bool { findings.isEmpty && unchecked.isEmpty && files > 0 }

  /// Whether, besides, nothing is lost elsewhere: in other targets, and in packages that this one depends on.
  package var isCleanEverywhere: Bool { isClean && elsewhere == 0 }

  package var json: String {
    get throws {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
      return String(decoding: try encoder.encode(self), as: UTF8.self)
    }
  }
}

extension LintReport: CustomStringConvertible {
  /// The findings, a line each as compilers print them, and what was counted.
  package var description: String {
    var lines = findings.map(\.description)
    let certain = findings.count { $0.isCertain }
    lines.append(
      "Classes lost: \(certain), perhaps lost: \(findings.count - certain). "
        + "Files checked: \(files). Findings silenced: \(silenced).")
    if elsewhere > 0 {
      lines.append("Classes lost in other targets and in packages that this one depends on: \(elsewhere).")
    }
    if files == 0, unchecked.isEmpty {
      lines.append("error: There is no Swift file to check.")
    }
    if !unchecked.isEmpty {
      let named = unchecked.prefix(3).joined(separator: ", ") + (unchecked.count > 3 ? ", …" : "")
      lines.append(
        "error: Files not checked, since the index lacks what is in them now: \(unchecked.count) (\(named)). "
          + LintError.howToIndex)
    }
    return lines.joined(separator: "\n")
  }
}
