import DataProtection
import Foundation

// Classes that are named among the arguments of the library's calls alone, and to read one: no variable holds any.

func direct(_ data: Data, at url: URL) throws {
  try data.write(to: url, options: .completeFileProtection)
  try FileManager.default.setAttributes([.protectionKey: FileProtectionType.complete], ofItemAtPath: url.path)
  _ = \Data.write
}

func read(_ attributes: [FileAttributeKey: Any]) -> Bool {
  attributes[.protectionKey] as? String == "NSFileProtectionComplete"
}
