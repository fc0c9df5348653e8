/// The sentences of a finding: why the class is lost, and what to write.
struct Advice {
  private let method: FileMethod
  private let kind: Finding.Kind
  private let isCertain: Bool
  private let imported: Bool

  /// - Parameter imported: whether the file imports DataProtection.
  init(_ method: FileMethod, _ kind: Finding.Kind, isCertain: Bool, imported: Bool) {
    self.method = method
    self.kind = kind
    self.isCertain = isCertain
    self.imported = imported
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
      }
    return protocolExplanation.map { "\(loss): \($0)" } ?? loss
  }

  var instead: String {
    switch kind {
    case .requirement, .conformance:
      "conform a type of your own, whose method calls \(owner) in a file that imports DataProtection"
    case .value: "write a closure that makes the call, in a file that imports DataProtection"
    case .call where !imported: "import DataProtection in this file"
    case .call: direct
    }
  }

  private var owner: String {
    switch method.carrier {
    case .options: "Data's"
    case .resourceKeys, .resourceReading: "URL's"
    default: "FileManager's"
    }
  }

  /// What to write where the import has not helped: the method is named with its labels, say.
  private var direct: String {
    switch method.carrier {
    case .options: "call Data.write(to:options:) on a value of type Data"
    case .attributes, .resourceKeys, .file: "set the class with FileManager.setProtection(_:ofItemAt:)"
    case .movedFile: "move within the mount, or call moveItem on a value of type FileManager"
    case .result, .resourceReading: "read the class with FileManager.protection(ofItemAt:)"
    }
  }
}
