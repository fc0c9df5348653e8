import ProtectfsLint

/// What `swift package protection-lint` does, as a test: `swift test` then fails for calls of Foundation that lose a
/// class.
///
/// ```swift
/// @Test func noClassIsLost() throws { try ProtectionLint.check() }
/// ```
///
/// The article "Finding lost classes" of DataProtection says what is found, and what is not.
public enum ProtectionLint {
  /// What was found, a line each as compilers print it.
  public struct Failure: Error, CustomStringConvertible {
    /// The lines.
    public let description: String
  }

  /// Checks the package that a test is of: its targets but those of tests, which the tests depend on or which were
  /// compiled with them.
  ///
  /// - Parameter file: a source file of the package.
  /// - Throws: ``Failure`` if a class is lost or may be; also if nothing could be checked.
  public static func check(packageOf file: String = #filePath) throws {
    let report: LintReport
    do throws(LintError) {
      report = try BuiltPackage(containing: file).check()
    } catch {
      throw Failure(description: "nothing could be checked: \(error.description)")
    }
    guard report.isClean else { throw Failure(description: report.description) }
  }
}
