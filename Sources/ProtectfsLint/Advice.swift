/// The sentences of a finding: why the class is lost, and what to write.
struct Advice {
  /// How a call gets to Foundation's method.
  enum Way {
    /// The file sees no property in the place of the method.
    case withoutImport
    /// The method is named with its labels: `data.write(to:options:)(url, [])`.
    case byFullName
    /// It looks like a call of the property, which the compiler prefers except in one place: where the call is the
    /// only expression of a closure that is not async, in an async function. The property's `callAsFunction` counts
    /// as called in the function there, and the method as called in the closure, which makes the method the better
    /// choice.
    case inClosure
  }

  private let method: FileMethod
  private let kind: Finding.Kind
  private let isCertain: Bool
  private let way: Way

  /// - Parameter way: how the call gets there, if it is one.
  init(_ method: FileMethod, _ kind: Finding.Kind, isCertain: Bool, _ way: Way) {
    self.method = method
    self.kind = kind
    self.isCertain = isCertain
    self.way = way
  }

  /// - Parameter protocolExplanation: how the call gets to Foundation by way of a protocol.
  func reason(_ protocolExplanation: String?) -> String {
    let loss =
      switch method.carrier {
      case .attributes, .options, .resourceKeys:
        isCertain ? "Foundation ignores the class" : "Foundation ignores a class in this"
      case .result, .resourceReading: "Foundation returns no class"
      case .file: "Foundation does not copy an explicit class"
      case .movedFile: "Foundation moves a file to a place that is no mount as plaintext, and removes the original"
      case .named(.notification, _): "Foundation does not begin the notifications"
      case .named: "Foundation makes the directory on no mount"
      }
    let explanation = kind == .call && way == .inClosure ? Self.inClosure : protocolExplanation
    return explanation.map { "\(loss): \($0)" } ?? loss
  }

  var instead: String {
    switch kind {
    case .requirement, .conformance:
      "conform a type of your own, whose method calls \(owner) in a file that imports DataProtection"
    case .value: "write a function that makes the call, in a file that imports DataProtection"
    case .call:
      switch way {
      case .withoutImport: "import DataProtection in this file"
      case .byFullName: "write each argument behind its label: \(method.baseName)(\(arguments))"
      case .inClosure:
        "call \(method.baseName).callAsFunction(\(arguments)), or give the closure a second statement"
      }
    }
  }

  private static let inClosure =
    "in an async function, the only expression of a closure calls Foundation's method"

  /// The method's arguments as a call has them, `to: …, options: …`.
  private var arguments: String {
    method.labels.map { label in label.map { "\($0): …" } ?? "…" }.joined(separator: ", ")
  }

  private var owner: String {
    switch method.carrier {
    case .options: "Data's"
    case .resourceKeys, .resourceReading: "URL's"
    case .named(.notification, _): "NotificationCenter's"
    default: "FileManager's"
    }
  }
}
