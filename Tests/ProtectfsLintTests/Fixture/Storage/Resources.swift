import Foundation

// Values of resources: Foundation has no key of the class.

func resources(_ url: URL, _ keys: Set<URLResourceKey>, _ values: URLResourceValues) throws {
  _ = try url.resourceValues(forKeys: [URLResourceKey(rawValue: "NSURLFileProtectionKey")])  // loses: call
  _ = try url.resourceValues(forKeys: keys)  // may lose: call
  _ = try url.resourceValues(forKeys: [.fileSizeKey, .isDirectoryKey])
  var copy = url
  try copy.setResourceValues(values)  // may lose: call
}

func resources(_ url: NSURL, _ key: URLResourceKey, _ values: [URLResourceKey: Any]) throws {
  var value: AnyObject?
  try url.getResourceValue(&value, forKey: key)  // may lose: call
  try url.getResourceValue(&value, forKey: .fileSizeKey)
  try url.setResourceValue(1, forKey: URLResourceKey(rawValue: "NSURLFileProtectionKey"))  // loses: call
  try url.setResourceValue(true, forKey: .isHiddenKey)
  try url.setResourceValues(values)  // may lose: call
  try url.setResourceValues([.isHiddenKey: true])
  _ = try url.resourceValues(forKeys: [key])  // may lose: call
}
