import ProtectfsPolicy
import SystemPackage

/// What a program sees, written out by hand: operations × states × classes.
///
///     .  it works      x  EACCES      s  a page fault gives SIGBUS (to the kernel's own access, EFAULT)
///     -  there is nothing to ask: before the first unlock no descriptor of such a file is open, and what was refused
///        to be created cannot be opened again
///
/// The classes are in the order A, B, C, D, CX. In the state `inactive` the period of class CX has passed.
package enum ContractTable {
  package static let states: [LockState] = [.beforeFirstUnlock, .unlocked, .gracePeriod, .locked, .inactive]
  package static let classes: [ProtectionClass] = [
    .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .none, .completeWhenUserInactive,
  ]

  private static let text = """
                                 before
                                 unlock unlocked  grace  locked  inactive
      operation                  ABCDX   ABCDX    ABCDX   ABCDX   ABCDX

      open for reading           xxx.x   .....    .....   xx...   xx..x
      open for writing           xxx.x   .....    .....   xx...   xx..x
      open for both              xxx.x   .....    .....   xx...   xx..x
      open with O_TRUNC          xxx.x   .....    .....   xx...   xx..x
      truncate                   xxx.x   .....    .....   xx...   xx..x
      read                       ---.-   .....    .....   x....   x...x
      write                      ---.-   .....    .....   x....   x...x
      write past the end         ---.-   .....    .....   x....   x...x
      append                     ---.-   .....    .....   x....   x...x
      ftruncate, shrink          ---.-   .....    .....   x....   x...x
      ftruncate, grow            ---.-   .....    .....   x....   x...x
      fallocate                  ---.-   .....    .....   x....   x...x
      fallocate, punch           ---.-   .....    .....   x....   x...x
      copy_file_range from it    ---.-   .....    .....   x....   x...x
      copy_file_range into it    ---.-   .....    .....   x....   x...x
      new mapping, read          ---.-   .....    .....   s....   s...s
      new mapping, write         ---.-   .....    .....   s....   s...s
      old mapping, read          ---.-   .....    .....   s....   s...s
      old mapping, write         ---.-   .....    .....   s....   s...s
      fsync                      ---.-   .....    .....   .....   .....
      fdatasync                  ---.-   .....    .....   .....   .....
      fstat                      ---.-   .....    .....   .....   .....
      getxattr                   xxx.x   .....    .....   xx...   xx..x
      setxattr                   xxx.x   .....    .....   xx...   xx..x
      listxattr                  .....   .....    .....   .....   .....
      create                     x.x.x   .....    .....   x....   x...x
      create, write, read back   x.x.x   .....    .....   x....   x...x
      open what was created      -x-.-   .....    .....   -x...   -x..-
      mknod                      x.x.x   .....    .....   x....   x...x
      stat                       .....   .....    .....   .....   .....
      readdir                    .....   .....    .....   .....   .....
      chmod                      .....   .....    .....   .....   .....
      chown                      .....   .....    .....   .....   .....
      utimens                    .....   .....    .....   .....   .....
      rename                     .....   .....    .....   .....   .....
      rename over another        .....   .....    .....   .....   .....
      link                       .....   .....    .....   .....   .....
      unlink                     x.x.x   .....    .....   x....   x...x
      mkdir                      .....   .....    .....   .....   .....
      rmdir                      .....   .....    .....   .....   .....
      symlink                    .....   .....    .....   .....   .....
      readlink                   .....   .....    .....   .....   .....
      get class                  .....   .....    .....   .....   .....
      get class of directory     .....   .....    .....   .....   .....
      set class of directory     .....   .....    .....   .....   .....
      set class to the same      xxx.x   .....    .....   xx...   xx..x
      set class to D             xxx.x   .....    .....   xx...   xx..x
      set class to B             xxx.x   .....    .....   xx...   xx..x
      set class from D           x.x.x   .....    .....   x....   x...x
      replace a chosen class     x.x.x   .....    .....   x....   x...x
    """

  /// One operation, and the answers in the order of the states.
  package struct Row: Sendable {
    package let operation: String
    package let answers: [[Character]]

    package func answer(in state: LockState, for fileClass: ProtectionClass) -> Character {
      answers[states.firstIndex(of: state)!][classes.firstIndex(of: fileClass)!]
    }
  }

  package static let rows: [Row] = text.split(separator: "\n").dropFirst(3).map { line in
    let answers = line.split(separator: " ").suffix(states.count)
    let name = line[..<answers.first!.startIndex]
    return Row(
      operation: String(name.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()),
      answers: answers.map(Array.init))
  }

  package static func error(for answer: Character) -> Errno? {
    switch answer {
    case "x": .permissionDenied
    case "s": .badAddress
    default: nil
    }
  }
}
