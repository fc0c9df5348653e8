/// The search among files: calls of Foundation's methods, values of them, and protocols that they satisfy.
struct LostClasses {
  private let files: [ScannedFile]
  private let foundation: FoundationSymbols
  private let classes: NamedClasses
  /// Requirements that methods of Foundation satisfy, by their symbols.
  private let requirements: [String: Requirement]
  private let silencedConformances: Int

  /// - Parameter defined: the symbols that modules define which were compiled, and so are not Foundation's.
  init(_ files: [ScannedFile], defined: Set<String>) {
    let foundation = FoundationSymbols(defined: defined)
    var requirements: [String: Requirement] = [:]
    var silenced = 0
    for file in files {
      for (occurrence, method) in foundation.witnesses(in: file) {
        if file.silences(occurrence.line) {
          if file.isReported { silenced += 1 }
          continue
        }
        for relation in occurrence.relations where relation.roles.contains(.overrideOf) {
          requirements[relation.usr, default: Requirement(method: method)].add(occurrence, in: file)
        }
      }
    }
    for definition in files.lazy.flatMap(\.occurrences) where definition.roles.contains(.definition) {
      let parent = definition.relations.first { $0.roles.contains(.childOf) }
      if let parent { requirements[definition.usr]?.protocolName = parent.name }
    }
    self.files = files
    self.foundation = foundation
    self.requirements = requirements
    silencedConformances = silenced
    classes = NamedClasses(files) { call in
      foundation.isShadow(call) || foundation.method(call) != nil || requirements[call.usr] != nil
    }
  }

  func report(to report: inout LintReport) {
    /// The worst calls of requirements.
    var losing: [String: Verdict] = [:]
    for file in files {
      for occurrence in file.occurrences where occurrence.roles.isDisjoint(with: [.implicit, .definition]) {
        let requirement = requirements[occurrence.usr]
        guard let method = foundation.method(occurrence) ?? requirement?.method else { continue }
        let isCall = occurrence.roles.contains(.call)
        let verdict =
          isCall
          ? classes.verdict(ofCall: occurrence, of: method, in: file) : classes.verdict(ofValueOf: method)
        guard verdict != .keeps else { continue }
        if requirement != nil { losing[occurrence.usr] = max(verdict, losing[occurrence.usr] ?? .keeps) }
        let kind: Finding.Kind = !isCall ? .value : requirement != nil ? .requirement : .call
        add(occurrence, kind, method, isCertain: verdict == .loses, requirement, in: file, to: &report)
      }
    }
    for (usr, verdict) in losing {
      guard let requirement = requirements[usr] else { continue }
      for (occurrence, file) in requirement.conformances.values {
        add(
          occurrence, .conformance, requirement.method, isCertain: verdict == .loses, requirement, in: file, to: &report
        )
      }
    }
    report.silenced += silencedConformances
    report.findings.sort { ($0.file, $0.line, $0.column) < ($1.file, $1.line, $1.column) }
  }

  private func add(
    _ occurrence: Occurrence, _ kind: Finding.Kind, _ method: FileMethod, isCertain: Bool,
    _ requirement: Requirement?, in file: ScannedFile, to report: inout LintReport
  ) {
    if file.silences(occurrence.line) {
      if file.isReported { report.silenced += 1 }
    } else if !file.isReported {
      if isCertain { report.elsewhere += 1 }
    } else {
      let advice = Advice(method, kind, isCertain: isCertain, way(of: occurrence, in: file))
      report.findings.append(
        Finding(
          file: file.path, line: occurrence.line, column: occurrence.column, kind: kind, method: method.name,
          isCertain: isCertain, reason: advice.reason(requirement?.explanation), instead: advice.instead))
    }
  }

  /// How a call of Foundation's method gets there.
  private func way(of call: Occurrence, in file: ScannedFile) -> Advice.Way {
    // The import in another file of the module may be enough.
    guard file.importsDataProtection || file.occurrences.contains(where: foundation.isShadow) else {
      return .withoutImport
    }
    return file.isByFullName(call) ? .byFullName : .inClosure
  }
}

/// A protocol's requirement that a method of Foundation satisfies.
private struct Requirement {
  let method: FileMethod
  var protocolName = "a protocol"
  /// A conformance for each method of Foundation that is a witness.
  private(set) var conformances: [String: (Occurrence, ScannedFile)] = [:]

  init(method: FileMethod) { self.method = method }

  /// Subclasses inherit a conformance: that of an extension goes before theirs.
  mutating func add(_ occurrence: Occurrence, in file: ScannedFile) {
    let isExtension = occurrence.container?.usr.hasPrefix("s:e:") == true
    if isExtension || conformances[occurrence.usr] == nil { conformances[occurrence.usr] = (occurrence, file) }
  }

  /// How a call of it gets to Foundation.
  var explanation: String? {
    guard let (occurrence, file) = conformances.values.min(by: { ($0.1.path, $0.0.line) < ($1.1.path, $1.0.line) })
    else { return nil }
    let type = occurrence.container?.name ?? "a type"
    return "\(type) satisfies \(protocolName) with Foundation's method (\(file.path):\(occurrence.line))"
  }
}
