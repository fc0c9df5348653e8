import Glibc
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage
import Testing

extension MountTests {
  /// The contract: every operation on a file of every class, in every state.
  @Suite struct ContractTests {
    @Test func everyOperationIsInTheTableOnce() {
      let names = ContractTable.rows.map(\.operation)
      #expect(Set(names) == Set(ContractOperation.all.keys))
      #expect(names.count == Set(names).count)
      for row in ContractTable.rows {
        #expect(row.answers.count == 5 && row.answers.allSatisfy { $0.count == 5 }, "\(row.operation)")
      }
    }

    /// Once with a descriptor of each file open since before the lock, once with none: what the daemon still holds must
    /// not open a file to others.
    @Test(arguments: ContractTable.states, [true, false])
    func holds(in state: LockState, withOpenFiles: Bool) throws {
      try Volume.with(["-o", "allow_other,inactive=\(state == .inactive ? 0.2 : 600)"]) { volume in
        var subjects = try makeSubjects(on: volume)
        if state == .beforeFirstUnlock {
          try volume.remount()
          subjects = try subjects.map { try $0.reopened(where: withOpenFiles && $0.subject.fileClass == .none) }
        } else {
          subjects = try subjects.map { try $0.reopened(where: withOpenFiles || $0.needsOpenFile) }
          try volume.enter(state)
        }
        let refused = try subjects.filter { try isRefused($0, in: state, withOpenFiles: withOpenFiles) }
        #expect(try volume.status().state == state)

        try volume.unlock()
        for subject in refused where subject.subject.path.exists {
          #expect(try subject.subject.path.contents() == Subject.contents, "\(subject) was changed by what was refused")
        }
      }
    }

    /// Does an operation, checks what it answers, and returns whether it was refused.
    private func isRefused(_ row: RowSubject, in state: LockState, withOpenFiles: Bool) throws -> Bool {
      let subject = row.subject
      let answer = row.row.answer(in: state, for: subject.fileClass)
      guard answer != "-", withOpenFiles || !row.needsOpenFile else { return false }
      let operation = try #require(ContractOperation.all[row.row.operation])
      let expected = ContractTable.error(for: answer)
      var error: Errno?
      let duration = ContinuousClock().measure { error = failure { () throws(Errno) in try operation.run(subject) } }
      #expect(error == expected, "\(row), \(state)")
      if expected != nil { #expect(duration < .seconds(1), "\(row), \(state): refusing took \(duration)") }
      return expected != nil
    }

    /// One file of each class for each operation.
    private func makeSubjects(on volume: Volume) throws -> [RowSubject] {
      let others = volume.path("others")
      try others.makeDirectory(of: .none)
      var subjects: [RowSubject] = []
      for fileClass in ContractTable.classes {
        let directory = volume.path(fileClass.letter)
        try directory.makeDirectory(of: fileClass)
        for (index, row) in ContractTable.rows.enumerated() {
          let other = others.appending("\(fileClass.letter) \(index)")
          try other.write(Subject.contents)
          let path = directory.appending("file \(index)")
          try path.write(Subject.contents)
          let subject = Subject(
            fileClass: fileClass, directory: directory, path: path, other: other)
          try #require(ContractOperation.all[row.operation]).prepare(subject)
          subjects.append(RowSubject(row: row, subject: subject))
        }
      }
      return subjects
    }
  }
}

/// A row of the table, and the file that its operation is done on.
private struct RowSubject: CustomStringConvertible {
  let row: ContractTable.Row
  var subject: Subject

  var description: String { "\(row.operation), class \(subject.fileClass.letter)" }

  /// The operation is done on a descriptor or mapping opened before.
  var needsOpenFile: Bool {
    row.answer(in: .beforeFirstUnlock, for: .complete) == "-" && !row.operation.hasPrefix("open")
  }

  /// With the descriptors and the mapping of it opened anew, and its first page touched.
  func reopened(where isWanted: Bool) throws -> RowSubject {
    guard isWanted else { return self }
    var opened = self
    opened.subject.otherFile = try OpenFile(subject.other, O_RDWR)
    opened.subject.file = try OpenFile(subject.path, O_RDWR)
    opened.subject.appending = try OpenFile(subject.path, O_WRONLY | O_APPEND)
    opened.subject.mapping = try Mapping(opened.subject.opened(), count: Subject.size)
    _ = try opened.subject.mapped().read(at: 0, count: 1)
    return opened
  }
}

extension Volume {
  /// Brings an unlocked mount into a state.
  func enter(_ state: LockState) throws {
    switch state {
    case .beforeFirstUnlock: try remount()
    case .unlocked: break
    case .gracePeriod: try announceLock(gracePeriod: .seconds(600))
    case .locked: try lock()
    case .inactive:
      try lock()
      try wait(for: .inactive)
    }
  }
}
