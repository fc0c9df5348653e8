import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The contract on one file system: a file of each class for each operation.
package struct ContractRun: Sendable {
  private var subjects: [RowSubject]

  /// Makes the files, in a file system that is unlocked. `rows` are those that can be asked there.
  package init(
    _ rows: [ContractTable.Row], in root: CallPath, newOwner: (user: UInt32, group: UInt32)
  ) throws(Errno) {
    let others = root.appending("others")
    try others.makeDirectory(of: .none)
    subjects = []
    for fileClass in ContractTable.classes {
      let directory = root.appending("\(fileClass)")
      try directory.makeDirectory(of: fileClass)
      for (index, row) in rows.enumerated() {
        let other = others.appending("\(fileClass) \(index)")
        try other.write(Subject.contents)
        let path = directory.appending("file \(index)")
        try path.write(Subject.contents)
        let subject = Subject(
          fileClass: fileClass, directory: directory, path: path, other: other, newOwner: newOwner)
        guard let operation = ContractOperation.all[row.operation] else { throw .wrongResult }
        try operation.prepare(subject)
        subjects.append(RowSubject(row: row, operation: operation, subject: subject))
      }
    }
  }

  /// Opens the files that an operation needs open, or every one that may be; before a lock, or before the first unlock.
  package mutating func openFiles(all: Bool, beforeFirstUnlock: Bool, mapping: Bool) throws(Errno) {
    for index in subjects.indices {
      let isWanted =
        beforeFirstUnlock ? all && subjects[index].subject.fileClass == .none : all || subjects[index].needsOpenFile
      if isWanted { try subjects[index].open(mapping: mapping) }
    }
  }

  /// What has gone otherwise than the table says.
  package struct Findings: Sendable {
    package var differences: [String] = []
    var refused: [RowSubject] = []
  }

  /// Does each operation in a state, and compares.
  package func perform(in state: LockState, withOpenFiles: Bool) -> Findings {
    var findings = Findings()
    for subject in subjects {
      let answer = subject.row.answer(in: state, for: subject.subject.fileClass)
      guard answer != "-", withOpenFiles || !subject.needsOpenFile else { continue }
      let expected = ContractTable.error(for: answer)
      var (error, duration, tries) = (Errno?.none, Duration.zero, 0)
      // What waits to be refused does so each time; a busy machine is slow once.
      repeat {
        duration = ContinuousClock().measure {
          error = failure { () throws(Errno) in try subject.operation.run(subject.subject) }
        }
        tries += 1
      } while expected != nil && error == expected && duration > .seconds(1) && tries < 10
      if error != expected {
        findings.differences.append(
          "\(subject), \(state): \(error?.debugDescription ?? "done"), not \(expected?.debugDescription ?? "done")")
      }
      guard expected != nil else { continue }
      findings.refused.append(subject)
      if duration > .seconds(1) { findings.differences.append("\(subject), \(state): refusing took \(duration)") }
    }
    return findings
  }

  /// Looks, after an unlock, whether anything that was refused has changed its file. Returns how many it has looked at.
  package func check(_ findings: inout Findings) -> Int {
    var count = 0
    for subject in findings.refused where subject.subject.path.exists {
      count += 1
      if (try? subject.subject.path.contents()) != Subject.contents {
        findings.differences.append("\(subject) was changed by what was refused")
      }
    }
    return count
  }
}

/// A row of the table, and the file that its operation is done on.
struct RowSubject: CustomStringConvertible {
  let row: ContractTable.Row
  let operation: ContractOperation
  var subject: Subject

  var description: String { "\(row.operation), class \(subject.fileClass)" }

  /// The operation is done on a descriptor or mapping opened before.
  var needsOpenFile: Bool {
    row.answer(in: .beforeFirstUnlock, for: .complete) == "-" && !row.operation.hasPrefix("open")
  }

  /// Opens the descriptors and the mapping of it anew, and touches its first page.
  mutating func open(mapping: Bool) throws(Errno) {
    subject.otherFile = try subject.other.open(O_RDWR)
    let file = try subject.path.open(O_RDWR)
    subject.file = file
    subject.appending = try subject.path.open(O_WRONLY | O_APPEND)
    _ = try file.read(at: 0, count: 1)
    guard mapping else { return }
    subject.mapping = try file.map(count: Subject.size)
    _ = try subject.mapped().read(at: 0, count: 1)
  }
}
