import FoundationEssentials
import ProtectfsIO
import ProtectfsPolicy
import SystemPackage

/// The two paths of an item that is copied, for the delegate and for errors.
struct CopyPaths: Sendable {
  let source: String
  let target: String

  /// Those of an item in the directory.
  func appending(_ name: PathName) -> CopyPaths {
    CopyPaths(source: Self.joined(source, name), target: Self.joined(target, name))
  }

  private static func joined(_ directory: String, _ name: PathName) -> String {
    directory.hasSuffix("/") ? "\(directory)\(name)" : "\(directory)/\(name)"
  }

  func sourceURL(isDirectory: Bool) -> URL { URL(fileURLWithPath: source, isDirectory: isDirectory) }

  func targetURL(isDirectory: Bool) -> URL { URL(fileURLWithPath: target, isDirectory: isDirectory) }

  /// Calls `body`, whose errors concern the source.
  func reading<Result: ~Copyable>(_ body: () throws(Errno) -> Result) throws(CopyFailure) -> Result {
    do throws(Errno) {
      return try body()
    } catch {
      throw CopyFailure(CocoaError(error, .reading, path: source))
    }
  }

  /// Calls `body`, whose errors concern the target.
  func writing<Result: ~Copyable>(
    asking protectionClass: ProtectionClass? = nil, _ body: () throws(Errno) -> Result
  ) throws(CopyFailure) -> Result {
    do throws(Errno) {
      return try body()
    } catch {
      throw CopyFailure(CocoaError(error, .writing, path: target, asking: protectionClass))
    }
  }
}

/// Why an item was not copied.
struct CopyFailure: Error {
  let error: CocoaError
  /// Whether the whole copy ends: the delegate was asked, and did not permit that it goes on.
  private(set) var isFinal = false

  init(_ error: CocoaError) {
    self.error = error
  }

  /// The same failure, about which the delegate is not asked.
  var final: CopyFailure {
    var failure = self
    failure.isFinal = true
    return failure
  }
}
