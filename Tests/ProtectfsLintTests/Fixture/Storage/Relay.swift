import Foundation

// What is lost here depends on what others pass.

func relay(_ data: Data, to url: URL, _ options: Data.WritingOptions) throws {
  try data.write(to: url, options: options)  // may lose: call
  let write = data.write(to:options:)  // may lose: value
  try write(url, options)
}

func relay(_ attributes: [FileAttributeKey: Any], to path: String) throws {
  try FileManager.default.setAttributes(attributes, ofItemAtPath: path)  // may lose: call
}
