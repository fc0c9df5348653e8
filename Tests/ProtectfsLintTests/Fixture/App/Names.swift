import DataProtection
import Foundation

// The class gets into a variable by its names of Objective-C alone, and no call of the protocol certainly loses it.

protocol Creating {
  func createDirectory(
    atPath path: String, withIntermediateDirectories: Bool, attributes: [FileAttributeKey: Any]?) throws
}

extension FileManager: Creating {}  // may lose: conformance

func names(_ files: any Creating) throws {
  let attributes: [FileAttributeKey: Any] = [NSFileProtectionKey: NSFileProtectionComplete]
  try files.createDirectory(  // may lose: requirement
    atPath: "/", withIntermediateDirectories: false, attributes: attributes)
}
