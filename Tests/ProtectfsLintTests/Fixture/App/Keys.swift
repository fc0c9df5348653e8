import DataProtection
import Foundation

// Classes among values of resources, which the library's calls set and read.

func resources(_ url: URL, _ object: NSURL) throws {
  let keys: Set<URLResourceKey> = [.fileProtectionKey]
  _ = try url.resourceValues(forKeys: keys)
  try object.setResourceValue(URLFileProtection.complete, forKey: .fileProtectionKey)
  let set = object.setResourceValue(_:forKey:)  // may lose: value
  let read = url.resourceValues(forKeys:)  // may lose: value
  _ = (set, read)
}

protocol Moving {
  func moveItem(at source: URL, to target: URL) throws
}

extension FileManager: Moving {}  // may lose: conformance

func move(_ files: any Moving, _ url: URL) throws {
  try files.moveItem(at: url, to: url)  // may lose: requirement
  let move = FileManager.default.moveItem(atPath:toPath:)  // may lose: value
  _ = move
}
