import Foundation

// Keys and classes that are named by strings in another place.

extension FileAttributeKey {
  static let prot = FileAttributeKey(rawValue: "NSFileProtectionKey")
}

extension URLResourceKey {
  static let sealKey = URLResourceKey(
    rawValue: "NSURLFileProtectionKey")
}

func strings(_ path: String, _ url: NSURL) throws -> Any? {
  let files = FileManager.default
  try files.setAttributes([.prot: "NSFileProtectionComplete"], ofItemAtPath: path)  // loses: call
  try files.setAttributes([.prot: 1], ofItemAtPath: path)  // loses: call
  _ = files.createFile(atPath: path, contents: nil, attributes: [FileAttributeKey.prot: path])  // loses: call
  try url.setResourceValue(1, forKey: .sealKey)  // loses: call
  try url.setResourceValue(1, forKey: .isHiddenKey)  // "NSURLFileProtectionKey" in a comment
  return try files.attributesOfItem(atPath: path)[.prot]  // loses: call
}

func stringsLater(_ path: String) throws -> Any? {
  let attributes = try FileManager.default.attributesOfItem(atPath: path)  // may lose: call
  return attributes[.prot]
}
