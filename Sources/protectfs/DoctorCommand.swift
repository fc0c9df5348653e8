import ArgumentParser

/// `protectfs doctor`
struct DoctorCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract: "Look for what keeps this machine from protecting files well, and say what to do.",
    discussion: """
      Looks at FUSE, logins, the session agent, sleep, device keys, recovery keys, swap, hibernation, core dumps, \
      thumbnails and search indexes, and changes nothing. Each line is 'good', a 'hint', or a 'fault': something that does not work, or \
      that lets locked files be read. The exit status is 1 if there is a fault.

      Of a recovery key it says when 'protectfs key test --recovery-key' last opened the store with it, on this machine.

      Example:
        protectfs doctor --json
      """)

  @Flag(help: "Report in JSON.")
  var json = false

  func run() throws {
    let findings = MachineChecks.findings() + DesktopChecks.findings() + StoreChecks.findings()
    if json {
      try JSONOutput.show(findings)
    } else {
      for finding in findings { print(finding.line) }
    }
    if findings.contains(where: { $0.grade == .fault }) { throw ExitCode(ExitStatus.failure.rawValue) }
  }
}

/// What was found of one thing.
struct Diagnosis: Encodable {
  enum Grade: String, Encodable { case good, hint, fault }

  let grade: Grade
  let subject: String
  /// How it is, in a sentence.
  let state: String
  /// What to do; `nil` where nothing need be done.
  let remedy: String?

  static func good(_ subject: String, _ state: String) -> Diagnosis {
    Diagnosis(grade: .good, subject: subject, state: state, remedy: nil)
  }

  static func hint(_ subject: String, _ state: String, _ remedy: String) -> Diagnosis {
    Diagnosis(grade: .hint, subject: subject, state: state, remedy: remedy)
  }

  static func fault(_ subject: String, _ state: String, _ remedy: String) -> Diagnosis {
    Diagnosis(grade: .fault, subject: subject, state: state, remedy: remedy)
  }

  fileprivate var line: String {
    let colour: TerminalColour = grade == .good ? .green : grade == .hint ? .yellow : .red
    let mark = grade.rawValue.padded(to: 5).coloured(colour)
    return "\(mark)  \(subject.padded(to: 13)) \(state)"
      + (remedy.map { "\n       \("".padded(to: 13)) → \($0)" } ?? "")
  }
}
