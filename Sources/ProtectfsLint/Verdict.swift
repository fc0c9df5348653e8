/// Whether a call loses a class, in the order of severity.
enum Verdict: Comparable { case keeps, mayLose, loses }

/// What the judgement of a call depends on beyond its file: whether any file names a class, and one that can reach the
/// call in a variable.
struct NamedClasses {
  private var named: Set<ClassCarrier> = []
  private var passed: Set<ClassCarrier> = []

  /// - Parameter isLookedAt: whether a call is judged by its own arguments.
  init(_ files: [ScannedFile], isLookedAt: (Occurrence) -> Bool) {
    for carrier in ClassCarrier.allCases {
      if files.contains(where: { $0.namesClass(carrier) }) { named.insert(carrier) }
      if files.contains(where: { $0.passesClass(carrier, besides: isLookedAt) }) { passed.insert(carrier) }
    }
  }

  /// A call of a method, or of a requirement that it satisfies.
  func verdict(ofCall call: Occurrence, of method: FileMethod, in file: ScannedFile) -> Verdict {
    let list = file.offset(of: call).flatMap {
      // What a macro wrote is not in the text.
      file.text.hasText(String(method.baseName), at: $0) ? file.arguments(of: call) : nil
    }
    switch method.carrier {
    case .options:
      let argument = list.map { $0.arguments.first { $0.label == "options" } }
      return verdict(argument, .options, in: file) { file.text.isPlainOptions($0) }
    case .attributes(let label):
      let argument = list.map { $0.arguments.first { $0.label == label } }
      return verdict(argument, .attributes, in: file) { file.text.isPlainAttributes($0) }
    case .resourceKeys(let label), .resourceReading(let label):
      let argument = list.map { $0.arguments.first { $0.label == label } }
      return verdict(argument, .resources, in: file) { file.text.isPlainResourceKeys($0) }
    case .result:
      if let list, let range = file.text.subscriptRange(after: list.range.upperBound) {
        return file.namesClass(.attributes, in: range) ? .loses : .keeps
      }
      return file.readsClass(in: call.container?.usr) ? .mayLose : .keeps
    case .file, .movedFile:
      return named.isDisjoint(with: ClassCarrier.classes) ? .keeps : .mayLose
    case .named(let carrier, let label):
      let range = list?.arguments.first { $0.label == label }?.range
      guard let range, file.namesClass(carrier, in: range) else { return .keeps }
      // The item may be on no mount.
      return carrier == .replacementDirectory ? .mayLose : .loses
    }
  }

  /// - Parameter argument: nil if the call's arguments were not found, or has no range if this one is not among them.
  private func verdict(
    _ argument: SourceText.Argument??, _ carrier: ClassCarrier, in file: ScannedFile,
    isPlain: (Range<Int>) -> Bool
  ) -> Verdict {
    let unknown: Verdict = passed.contains(carrier) ? .mayLose : .keeps
    guard let argument else { return unknown }
    guard let range = argument?.range else { return .keeps }
    let text = file.text.text(range)
    let isLiteral = ["NSFileProtection", "NSURLFileProtectionKey"].contains { text.contains($0) }
    if isLiteral || file.namesClass(carrier, in: range) { return .loses }
    return isPlain(range) ? .keeps : unknown
  }

  /// A method as a value, which can be called with any arguments.
  func verdict(ofValueOf method: FileMethod) -> Verdict {
    switch method.carrier {
    case .options: passed.contains(.options) ? .mayLose : .keeps
    case .attributes: passed.contains(.attributes) ? .mayLose : .keeps
    case .resourceKeys: passed.contains(.resources) ? .mayLose : .keeps
    case .resourceReading: named.contains(.resources) ? .mayLose : .keeps
    case .result: named.contains(.attributes) ? .mayLose : .keeps
    case .file, .movedFile: named.isDisjoint(with: ClassCarrier.classes) ? .keeps : .mayLose
    case .named(let carrier, _): named.contains(carrier) ? .mayLose : .keeps
    }
  }
}
